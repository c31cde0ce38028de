"""Passages in, ranked passages out: the embedded BM25 index and the readers of corpora."""

from __future__ import annotations

from pathlib import Path

from keqa.retrievers.base import Hit, Passage, Retriever
from keqa.retrievers.manifest import Manifest
from keqa.retrievers.readers import read_corpus
from keqa.retrievers.tantivy_build import add_passages, build_index, delete_passages
from keqa.retrievers.tantivy_index import TantivyRetriever

__all__ = [
    "Hit",
    "Manifest",
    "Passage",
    "Retriever",
    "TantivyRetriever",
    "add_passages",
    "build_index",
    "delete_passages",
    "open_index",
    "read_corpus",
]


def open_index(path: Path | str) -> TantivyRetriever:
    """Open a finished index, whatever built it.

    Args:
        path: The index folder, as given to :func:`build_index`.

    Raises:
        RetrievalError: There is no index, or it is half-built, truncated, or made by an incompatible version.
    """
    return TantivyRetriever.open(path)
