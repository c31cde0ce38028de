"""``keqa search``: what an index finds, without a language model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from keqa.cli.console import emit, status, table
from keqa.cli.options import AsJson, Index, argument, option
from keqa.storage.redaction import visible, visible_line

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.retrievers import Hit, Retriever


def search(
    *,
    query: str = argument("QUERY", "Any text."),
    index: Index = None,
    k: int = option("How many passages.", "--top-k", "-k", default=10, min=1),
    as_json: AsJson = False,
) -> None:
    """Search an index and show the passages that it finds, best first, and where in which file they stand."""
    from rich.text import Text

    with status().status("searching…"):
        retriever = opened(index)
        hits, milliseconds = timed(retriever, query, k)
    said = f"{len(hits)} passage{'s' * (len(hits) != 1)} in {milliseconds:.1f} ms"
    value = {"query": query, "milliseconds": milliseconds, "hits": as_json_rows(hits)}
    emit(value, [hits_table(hits), Text(said, "dim")], as_json=as_json)


def opened(index: str | None) -> Retriever:
    """The index at an address, or the testbed's."""
    if index is None:
        from keqa.testbed.index import open_encyclopedia

        return open_encyclopedia()
    from keqa.retrievers.engines import open_index

    return open_index(index)


def timed(retriever: Retriever, query: str, k: int) -> tuple[list[Hit], float]:
    """What a query finds, and how many milliseconds it took, after one search that loads what is loaded late."""
    retriever.search(query, k)
    started = time.perf_counter()
    hits = retriever.search(query, k)
    return hits, 1000 * (time.perf_counter() - started)


def hits_table(hits: Sequence[Hit]) -> Table:
    """The passages as a table."""
    from rich.text import Text

    rows = []
    for rank, hit in enumerate(hits, start=1):
        title, text = visible_line(hit.passage.title), visible(hit.passage.text)
        place = ", ".join(filter(None, (str(hit.passage.place), hit.passage.place.date)))
        # Long ids would leave the text no room beside them; most begin with the file.
        below = visible_line(place or hit.passage.id)
        passage = Text.assemble((f"{title}: ", "bold") if title else "", text, (f"\n{below}", "dim"))
        rows.append((str(rank), f"{hit.score:.4g}", passage))
    return table(("", "score", "passage"), rows, left=(2,))


def as_json_rows(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """The passages as JSON."""
    return [
        {
            **{"rank": rank, "score": hit.score, "id": hit.passage.id, "title": hit.passage.title},
            **{"text": hit.passage.text, **asdict(hit.passage.place)},
        }
        for rank, hit in enumerate(hits, start=1)
    ]
