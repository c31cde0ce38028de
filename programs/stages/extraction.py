"""Key sentences in the place of whole passages (KEQA, section 4.2, the variant w SE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import dspy

from keqa.programs.stages.selection import Similarity, closest, lexical_similarity
from keqa.retrievers.base import Hit, Passage, Retriever
from keqa.retrievers.caching import Kept
from keqa.retrievers.splitting import sentences

_LONGEST_TITLE = 100


class KeySentences:
    """A retriever whose passages are cut down to the sentences closest to the query.

    Whatever reads passages then reads the same short ones: the judge, the answer, the record, and a utility reference
    built with it. What one built without it shows is cut by `KeyDemonstrations`.
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
        passage = _cut(query, hit.passage, self.keep, self._similarity)
        return hit if passage is hit.passage else replace(hit, passage=passage)


class KeyDemonstrations:
    """Demonstrations whose passages are cut down to the sentences closest to their own quiz, as those found are.

    A utility reference that was built on whole passages would show the judge other ones than it is asked about. Each
    demonstration is cut when it is first shown, and its short form kept: there are never more than the reference has.
    Safe to call from many threads at once.
    """

    def __init__(self, keep: int, similarity: Similarity | None = None) -> None:
        """Set up.

        Args:
            keep: How many sentences of each passage to keep.
            similarity: Compares the quiz with sentences; by words where None.
        """
        self.keep = keep
        self._similarity = similarity or lexical_similarity
        self._short: dict[tuple[str, str], str] = {}

    def __call__(self, demos: Sequence[Any]) -> list[dspy.Example]:
        """The same demonstrations with short passages.

        Args:
            demos: Each with `quiz` and `passage`, as `keqa.signatures.JudgeUtility` takes them.
        """
        return [dspy.Example(**{**demo, "passage": self._passage(demo["quiz"], demo["passage"])}) for demo in demos]

    def _passage(self, quiz: str, rendered: str) -> str:
        found = self._short.get((quiz, rendered))
        if found is None:
            found = _cut(quiz, _as_passage(rendered), self.keep, self._similarity).rendered
            self._short[quiz, rendered] = found
        return found


def _cut(query: str, passage: Passage, keep: int, similarity: Similarity) -> Passage:
    """A passage with the sentences closest to a query alone; one that has no more is the same."""
    parts = [sentence.strip() for sentence in sentences(passage.text)]
    if len(parts) <= keep:
        return passage
    return replace(passage, text=" ".join(closest([query], parts, keep, similarity)))


def _as_passage(rendered: str) -> Passage:
    """A passage from what a language model reads, where a title looks like a first sentence with a colon."""
    title, colon, text = rendered.partition(": ")
    named = bool(colon) and len(title) <= _LONGEST_TITLE
    return Passage("", title if named else "", text if named else rendered)
