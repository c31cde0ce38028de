"""An index that others change while it is searched: each question sees one state of it, the next one what is new."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from keqa.errors import RetrievalError
from keqa.retrievers.base import Hit, Retriever, SharedRetriever
from keqa.retrievers.engines import WORDS, folder_and_model, is_documents, is_remote, open_index, parts_of
from keqa.retrievers.hybrid import HybridRetriever

_Mark = tuple[tuple[str, int, int, int], ...]


class _WatchedIndex(NamedTuple):
    """One index of an address, as it was opened."""

    address: str
    retriever: Any
    # Of its folder when it was opened; None where it is not known, or on a server.
    mark: _Mark | None = None

    def renewed(self) -> _WatchedIndex:
        """The index as it is now: this one where nothing was changed."""
        mark = None if is_remote(self.address) else _mark(self.address)
        if mark is not None and mark == self.mark:
            return self
        # Searches under way have the other one; a file of documents is read anew.
        renewing = isinstance(self.retriever, SharedRetriever) and hasattr(self.retriever, "reload")
        found = self.retriever.fresh() if renewing else open_index(self.address)
        same = mark is None and found.manifest == self.retriever.manifest
        return self if same else _WatchedIndex(self.address, found, mark)


class WatchedRetriever(SharedRetriever):
    """Searches an index that others change, as it was found last until :meth:`refresh`; see also :meth:`one_state`."""

    passes_on = True
    """What it finds is what the retriever behind it finds."""

    def __init__(self, address: Path | str, retriever: Retriever) -> None:
        """Watch an index that `keqa.retrievers.open_index` has opened by an address."""
        opened = retriever.retrievers if isinstance(retriever, HybridRetriever) else [retriever]
        self._parts = tuple(map(_WatchedIndex, parts_of(address), opened))
        self._latest = retriever
        self.own_documents = getattr(retriever, "own_documents", True)
        self._lock = threading.Lock()
        self._held: ContextVar[Retriever | None] = ContextVar("keqa_index_state", default=None)

    @property
    def retriever(self) -> Retriever:
        """The state of the index that is searched here and now."""
        return self._held.get() or self._latest

    @property
    def manifest(self) -> Any:
        return getattr(self.retriever, "manifest", None)

    def refresh(self) -> bool:
        """Look for changes, and take up what is new from the next question on."""
        with self._lock:
            parts = tuple(part.renewed() for part in self._parts)
            if all(new is old for new, old in zip(parts, self._parts, strict=True)):
                return False
            known = self._latest
            if isinstance(known, HybridRetriever):
                self._latest = HybridRetriever([part.retriever for part in parts], **known.settings)
            else:
                self._latest = parts[0].retriever
            self._parts = parts
            return getattr(self._latest, "manifest", None) != getattr(known, "manifest", None)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Within this context, and what is started in it, every search sees the index as it was found last."""
        token = self._held.set(self._latest)
        try:
            yield
        finally:
            self._held.reset(token)

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        return self.retriever.search_many(queries, k)


def _mark(address: str) -> _Mark:
    """What differs after every change of an index in a folder, as each renames a file there: no file of it is read."""
    path = (
        Path(address.partition(":")[2]).expanduser()
        if is_documents(address)
        else folder_and_model(address.removeprefix(WORDS))[0]
    )
    try:
        inside = [path] if path.is_file() else [Path(entry) for entry in os.scandir(path)]
        found = [(one.name, one.stat()) for one in inside]
    except OSError as error:
        raise RetrievalError(f"the index {path} cannot be read: {error.strerror or error}") from error
    return tuple(sorted((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in found))
