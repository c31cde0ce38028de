"""Passages with the answers taken out, by which is seen whether a language model answers from them (MASK RAG)."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from keqa.retrievers.base import Hit, Retriever, SharedRetriever
from keqa.retrievers.text import UNSPACED

MASK = "MASK"
"""What replaces an answer."""


class MaskingRetriever(SharedRetriever):
    """Finds what another retriever finds, with the answers to the query masked (KBM, section 2.1)."""

    def __init__(self, retriever: Retriever, golds: Callable[[str], Sequence[str]]) -> None:
        """Mask the answers that ``golds`` gives to a query; none, or an empty one, masks nothing."""
        self.retriever, self._golds = retriever, golds
        self.own_documents = False

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        found = []
        for query, hits in zip(queries, self.retriever.search_many(queries, k), strict=True):
            pattern = naming(self._golds(query))
            found.append(hits if pattern is None else [_masked(hit, pattern) for hit in hits])
        return found


def naming(answers: Iterable[str]) -> re.Pattern[str] | None:
    """What finds answers in a passage; None where there are none."""
    # The longest first: of a name within another one nothing may be left.
    found = sorted((answer for answer in answers if answer.strip()), key=len, reverse=True)
    if not found:
        return None
    # Beside Chinese a word ends without a space.
    word = rf"[^\W{UNSPACED}]"
    spelled = (rf"(?<!{word}){re.escape(one)}(?!{word})" if one.isascii() else re.escape(one) for one in found)
    return re.compile("|".join(spelled), re.IGNORECASE)


def _masked(hit: Hit, pattern: re.Pattern[str]) -> Hit:
    title, text = (pattern.sub(MASK, one) for one in (hit.passage.title, hit.passage.text))
    return replace(hit, passage=replace(hit.passage, title=title, text=text))
