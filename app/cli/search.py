"""``keqa search``: what an index finds, without a language model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.console import results, show_json, status
from keqa.cli.options import AsJson, Index
from keqa.storage.terminal import visible, visible_line

if TYPE_CHECKING:
    from rich.table import Table

    from keqa.retrievers import Hit, Retriever


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text.", show_default=False)],
    index: Index = None,
    k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many passages.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Search an index and show the passages that it finds, best first, and where in which file they stand."""
    from keqa.retrievers import open_index
    from keqa.testbed.index import open_encyclopedia

    with status().status("searching…"):
        retriever = open_encyclopedia() if index is None else open_index(index)
        hits, milliseconds = timed(retriever, query, k)
    if as_json:
        show_json({"query": query, "milliseconds": milliseconds, "hits": as_json_rows(hits)})
        return
    results().print(hits_table(hits))
    results().print(f"{len(hits)} passage{'s' * (len(hits) != 1)} in {milliseconds:.1f} ms", style="dim")


def timed(retriever: Retriever, query: str, k: int) -> tuple[list[Hit], float]:
    """What a query finds, and how many milliseconds it took, after one search that loads what is loaded late."""
    retriever.search(query, k)
    started = time.perf_counter()
    hits = retriever.search(query, k)
    return hits, 1000 * (time.perf_counter() - started)


def hits_table(hits: Sequence[Hit]) -> Table:
    """The passages as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    table.add_column("", justify="right")
    table.add_column("score", justify="right")
    table.add_column("passage", overflow="fold")
    for rank, hit in enumerate(hits, start=1):
        title, text = visible_line(hit.passage.title), visible(hit.passage.text)
        place = ", ".join(filter(None, (str(hit.passage.place), hit.passage.place.date)))
        # Long ids would leave the text no room beside them; most begin with the file.
        below = visible_line(place or hit.passage.id)
        passage = Text.assemble((f"{title}: ", "bold") if title else "", text, (f"\n{below}", "dim"))
        table.add_row(str(rank), f"{hit.score:.4g}", passage)
    return table


def as_json_rows(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """The passages as JSON."""
    return [
        {
            "rank": rank,
            "score": hit.score,
            "id": hit.passage.id,
            "title": hit.passage.title,
            "text": hit.passage.text,
            **asdict(hit.passage.place),
        }
        for rank, hit in enumerate(hits, start=1)
    ]
