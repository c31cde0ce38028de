"""Passages in, ranked passages out: the engines, what joins them, and the readers of corpora."""

from __future__ import annotations

from keqa.retrievers.adapters import AdaptedRetriever, as_retriever
from keqa.retrievers.base import Hit, Passage, Retriever
from keqa.retrievers.caching import CachingRetriever
from keqa.retrievers.changing import IndexChange, add_files, remove_files, sync_folder
from keqa.retrievers.dense import DenseManifest, DenseRetriever, build_dense
from keqa.retrievers.hybrid import HybridManifest, HybridRetriever
from keqa.retrievers.left_out import LeftOut
from keqa.retrievers.manifest import Manifest
from keqa.retrievers.opening import Index, open_index
from keqa.retrievers.place import Place
from keqa.retrievers.readers import Corpus, read_corpus
from keqa.retrievers.tantivy_build import add_passages, build_index, delete_passages
from keqa.retrievers.tantivy_index import TantivyRetriever

__all__ = [
    "AdaptedRetriever",
    "CachingRetriever",
    "Corpus",
    "DenseManifest",
    "DenseRetriever",
    "Hit",
    "HybridManifest",
    "HybridRetriever",
    "Index",
    "IndexChange",
    "LeftOut",
    "Manifest",
    "Passage",
    "Place",
    "Retriever",
    "TantivyRetriever",
    "add_files",
    "add_passages",
    "as_retriever",
    "build_dense",
    "build_index",
    "delete_passages",
    "open_index",
    "read_corpus",
    "remove_files",
    "sync_folder",
]
