"""The embedded BM25 retriever: Tantivy, on disk and memory-mapped."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.retrievers.analysis import query_terms
from keqa.retrievers.base import Hit, Passage, Retriever, checked_k
from keqa.retrievers.manifest import Manifest
from keqa.retrievers.tantivy_build import add_passages, build_index, delete_passages
from keqa.retrievers.tantivy_engine import Opened, engine_errors, open_checked

if TYPE_CHECKING:
    import tantivy

__all__ = ["TantivyRetriever", "add_passages", "build_index", "delete_passages"]

# Where the last hit and the one after it have the same score, so many more are looked at, to put those of equal score
# into an order that does not depend on how the index was written. Always to do so would cost a third of the time.
_TIES = 32


class TantivyRetriever(Retriever):
    """BM25 over title and text of an index on disk.

    Safe to use from many threads. It shows the index as it was when it was opened, until :meth:`reload`.
    """

    def __init__(self, folder: Path, opened: Opened) -> None:
        """Take over an opened index; use :meth:`open`."""
        self._folder = folder
        self._opened = opened
        self._lock = threading.Lock()

    @classmethod
    def open(cls, path: Path | str) -> TantivyRetriever:
        """Open a finished index.

        Raises:
            RetrievalError: There is no finished index, it is truncated or broken, or this version cannot read it.
        """
        folder = Path(path)
        return cls(folder, open_checked(folder))

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""
        return self._opened.manifest

    def reload(self) -> Manifest:
        """See what was added, deleted or rebuilt since; searches under way finish on the old state."""
        with self._lock:
            self._opened = open_checked(self._folder)
        return self._opened.manifest

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` passages, best first; equal scores are ordered by id.

        Args:
            query: Any text; nothing in it is an operator.
            k: How many passages.

        Raises:
            InputError: ``k`` is less than 1.
            RetrievalError: The engine failed.
        """
        checked_k(k)
        opened = self._opened
        terms = query_terms(query, opened.manifest.analyzer.language)
        if not terms:
            return []
        with engine_errors(f"searching the index in {self._folder} failed"):
            searcher = opened.index.searcher()
            wanted = self._query(opened, terms)
            k = min(k, opened.manifest.passages)
            found = searcher.search(wanted, k + 1, count=False).hits
            if len(found) > k and found[k][0] == found[k - 1][0]:
                found = searcher.search(wanted, k + _TIES, count=False).hits
            cut = found[k - 1][0] if len(found) >= k else 0.0
            hits = [Hit(_passage(searcher.doc(address)), float(score)) for score, address in found if score >= cut]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.id))[:k]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Search for each query in turn; a search takes milliseconds, less than handing it to a thread gains."""
        return [self.search(query, k) for query in queries]

    def __deepcopy__(self, memo: dict[int, object]) -> TantivyRetriever:
        """Return itself: copies of a program share the index."""
        return self

    @staticmethod
    def _query(opened: Opened, terms: Sequence[str]) -> tantivy.Query:
        from tantivy import Occur, Query

        weight = opened.manifest.analyzer.title_weight
        clauses = []
        for term in terms:
            clauses.append((Occur.Should, Query.term_query(opened.schema, "text", term, "freq")))
            in_title = Query.term_query(opened.schema, "title", term, "freq")
            clauses.append((Occur.Should, Query.boost_query(in_title, weight)))
        return Query.boolean_query(clauses)


def _passage(document: tantivy.Document) -> Passage:
    return Passage(
        id=str(document.get_first("doc_id")),
        title=str(document.get_first("title") or ""),
        text=str(document.get_first("text") or ""),
    )
