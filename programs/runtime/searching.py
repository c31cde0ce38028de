"""One search as DSPy's callbacks see it: a call of a tool, so that traces have a span for it."""

from __future__ import annotations

from typing import Any

import dspy

from keqa.retrievers.base import Hit, Retriever

NAME = "search"
"""The name of the tool in callbacks."""


def search(retriever: Retriever, query: str, k: int) -> list[Hit]:
    """Search, and let callbacks know, where there are any.

    They get the query, how many passages are wanted, and of each that was found `title`, `passage_id`, `text` and
    `score`; or what was raised.

    Args:
        retriever: Where to search.
        query: What for.
        k: How many passages to find.

    Raises:
        Exception: What the retriever raised.
    """
    if not dspy.settings.callbacks:
        return retriever.search(query, k)
    found: list[list[Hit]] = []

    def searched(query: str, k: int) -> list[dict[str, Any]]:
        hits = retriever.search(query, k)
        found.append(hits)
        return [
            {"title": one.passage.title, "passage_id": one.passage.id, "text": one.passage.text, "score": one.score}
            for one in hits
        ]

    dspy.Tool(searched, name=NAME, desc="Finds passages.")(query=query, k=k)
    return found[0]
