"""Passages in, ranked passages out: the engines, what joins them, and the readers of corpora."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keqa.retrievers.adapters import as_retriever
    from keqa.retrievers.base import Hit, Passage, Place, Retriever
    from keqa.retrievers.caching import CachingRetriever
    from keqa.retrievers.changing import add_files, remove_files, sync_folder
    from keqa.retrievers.engines import Index, open_index
    from keqa.retrievers.hybrid import HybridRetriever
    from keqa.retrievers.local.build import build_index
    from keqa.retrievers.local.dense import DenseRetriever, build_dense
    from keqa.retrievers.local.index import TantivyRetriever
    from keqa.retrievers.manifest import Manifest
    from keqa.retrievers.readers import read_corpus

_HOMES = {
    "adapters": "as_retriever",
    "base": "Hit Passage Place Retriever",
    "caching": "CachingRetriever",
    "changing": "add_files remove_files sync_folder",
    "engines": "Index open_index",
    "hybrid": "HybridRetriever",
    "manifest": "Manifest",
    "readers": "read_corpus",
    "local.build": "build_index",
    "local.dense": "DenseRetriever build_dense",
    "local.index": "TantivyRetriever",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "CachingRetriever",
    "DenseRetriever",
    "Hit",
    "HybridRetriever",
    "Index",
    "Manifest",
    "Passage",
    "Place",
    "Retriever",
    "TantivyRetriever",
    "add_files",
    "as_retriever",
    "build_dense",
    "build_index",
    "open_index",
    "read_corpus",
    "remove_files",
    "sync_folder",
]


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: a search by words needs neither NumPy nor the readers."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
