"""The testbed's passages as an index, built once and kept in the user's cache folder."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from keqa.errors import InputError, RetrievalError
from keqa.retrievers.documents import DocumentsManifest
from keqa.retrievers.manifest import SourceHash
from keqa.testbed.testbed import Testbed

if TYPE_CHECKING:
    from keqa.retrievers import DenseRetriever, Passage, TantivyRetriever
    from keqa.retrievers.base import SharedRetriever
    from keqa.retrievers.hybrid import HybridManifest
    from keqa.retrievers.manifest import DenseManifest, Manifest

DOCUMENTS_ORIGIN = "testbed"
"""Begins the origin of documents for the testbed's questions, which the language model that ships can read."""

_NAME = "encyclopedia"

_R = TypeVar("_R", "TantivyRetriever", "DenseRetriever")
_A = TypeVar("_A", bound="SharedRetriever")


def open_encyclopedia(
    passages: Sequence[Passage] | None = None,
    *,
    cache: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> TantivyRetriever:
    """Open the index of the fictional encyclopedia, and build it on first use.

    Its folder is named for its content, so that another version of the testbed gets another index. Where the cache
    folder cannot be used, or another process is building there, the index goes to a temporary folder.

    Args:
        passages: The passages, where they are at hand; those of the default testbed otherwise.
        cache: Where indexes are kept; the platform's cache folder by default.
        progress: Called with the number of passages indexed so far.

    Returns:
        A retriever over the passages.
    """
    from keqa.retrievers import TantivyRetriever, build_index

    build = partial(build_index, language="en", progress=progress, notice=lambda text: None, name=_NAME)
    return _opened(_NAME, passages, cache, TantivyRetriever, build)


def open_dense_encyclopedia(passages: Sequence[Passage] | None = None, *, cache: Path | None = None) -> DenseRetriever:
    """The same with a dense retriever, all-MiniLM-L6-v2 (KEQA, section 4.4, Table 3)."""
    from keqa.retrievers import DenseRetriever, build_dense

    build = partial(build_dense, notice=lambda text: None, name=_NAME)
    return _opened(f"{_NAME}-dense", passages, cache, DenseRetriever, build)


def _opened(
    name: str,
    passages: Sequence[Passage] | None,
    cache: Path | None,
    open_at: Callable[[Path], _R],
    build: Callable[[Sequence[Passage], Path], object],
) -> _R:
    from platformdirs import user_cache_path

    passages = Testbed().passages if passages is None else passages
    content = _fingerprint(passages)
    folder = (cache or user_cache_path("keqa", appauthor=False)) / f"{name}-{content[:20]}"
    with suppress(RetrievalError, OSError):
        retriever = open_at(folder)
        if retriever.manifest.source_hash == content:
            return as_benchmark(retriever)
    # Absent, interrupted or of an earlier version.
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        build(passages, folder)
        return as_benchmark(open_at(folder))
    except (RetrievalError, InputError, OSError):
        parent = Path(tempfile.mkdtemp(prefix="keqa-"))
        atexit.register(shutil.rmtree, parent, ignore_errors=True)
        build(passages, parent / name)
        return as_benchmark(open_at(parent / name))


def as_benchmark(retriever: _A) -> _A:
    """A retriever over the testbed marked as such, so that programs over it answer as their papers do."""
    retriever.own_documents = False
    return retriever


def holds_encyclopedia(manifest: Manifest | DenseManifest | HybridManifest | DocumentsManifest | None) -> bool:
    """Whether an index holds the passages of the default testbed, or documents for its questions, and nothing else."""
    if isinstance(manifest, DocumentsManifest):
        return all(origin.startswith(DOCUMENTS_ORIGIN) for origin in manifest.origins)
    content: str | None = getattr(manifest, "source_hash", None)
    return content is not None and content == _fingerprint(Testbed().passages)


def _fingerprint(passages: Sequence[Passage]) -> str:
    content = SourceHash()
    for passage in passages:
        content.add(passage)
    return content.hexdigest()
