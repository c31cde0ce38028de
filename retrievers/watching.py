"""An index that others change while it is searched: each question sees one state of it, the next one what is new."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from keqa.retrievers.base import Hit, Retriever, SharedRetriever
from keqa.retrievers.engines import is_remote, open_index, parts_of
from keqa.retrievers.hybrid import HybridRetriever


class WatchedRetriever(SharedRetriever):
    """Searches an index that others change, as it was found last until :meth:`refresh`; see also :meth:`one_state`."""

    passes_on = True
    """What it finds is what the retriever behind it finds."""

    def __init__(self, address: Path | str, retriever: Retriever) -> None:
        self._addresses, self._latest = parts_of(address), retriever
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
            known = self._latest
            parts = known.retrievers if isinstance(known, HybridRetriever) else (known,)
            found = [_renewed(*one) for one in zip(self._addresses, parts, strict=True)]
            if all(new is old for new, old in zip(found, parts, strict=True)):
                return False
            self._latest = HybridRetriever(found, **known.settings) if isinstance(known, HybridRetriever) else found[0]
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


def _renewed(address: str, known: Any) -> Any:
    """An index as it is now: the same retriever where nothing was changed."""
    renewing = isinstance(known, SharedRetriever) and hasattr(known, "reload")
    found = known.fresh() if renewing else open_index(address)
    return known if is_remote(address) and found.manifest == known.manifest else found
