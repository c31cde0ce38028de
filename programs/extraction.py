"""Key sentences in the place of whole passages (KEQA, section 4.2, the variant w SE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from keqa.programs.selection import Similarity, lexical_similarity, sentences
from keqa.retrievers.base import Hit, Retriever
from keqa.retrievers.caching import Kept

__all__ = ["KeySentences"]


class KeySentences:
    """A retriever whose passages are cut down to the sentences closest to the query.

    Whatever reads passages then reads the same short ones: the judge, the answer, the record, and a utility reference
    built with it.
    """

    def __init__(self, retriever: Retriever, keep: int, similarity: Similarity | None = None) -> None:
        """Set up.

        Args:
            retriever: Finds the passages.
            keep: How many sentences of each to keep.
            similarity: Compares the query with sentences; by words where None.
        """
        self.retriever, self.keep = retriever, keep
        self._similarity = similarity or lexical_similarity

    def search(self, query: str, k: int = 10) -> list[Hit]:
        """Return at most ``k`` hits, best first."""
        found = self.retriever.search(query, k)
        shortened = [self._shortened(query, hit) for hit in found]
        return Kept(shortened, found.seconds) if isinstance(found, Kept) else shortened

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        """Return one list of hits per query, in the order of the queries."""
        found = self.retriever.search_many(queries, k)
        return [[self._shortened(query, hit) for hit in hits] for query, hits in zip(queries, found, strict=True)]

    def _shortened(self, query: str, hit: Hit) -> Hit:
        parts = sentences(hit.passage.text)
        if len(parts) <= self.keep:
            return hit
        scores = self._similarity([query], parts)
        closest = sorted(range(len(parts)), key=lambda position: -scores[position])[: self.keep]
        text = " ".join(parts[position] for position in sorted(closest))
        return replace(hit, passage=replace(hit.passage, text=text))
