"""An estimate as a table: calls, tokens and price of every run, from the least to the most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter

from keqa.evaluation.reports.grid import Cell, Column, Grid, Row, text
from keqa.evaluation.reproduction.estimate import Bounds, Estimate, Spent, price

__all__ = ["estimates"]

_COLUMNS = (
    Column("data set", right=False),
    Column("run", right=False),
    Column("questions"),
    *(
        Column(name, group)
        for group in ("LM calls", "tokens read", "tokens written", "US dollars")
        for name in ("least", "most")
    ),
)


def estimates(found: Sequence[Estimate]) -> Grid:
    """A row a method and data set, and their sum; the sum of each language model, where there are several.

    Args:
        found: What was rehearsed.
    """
    rows = [_row(one.dataset, one.label, [one]) for one in found]
    rows.append(_row("all", "", found, ruled=True))
    models = list(dict.fromkeys(model for one in found for model in one.bounds))
    for model in models if len(models) > 1 else ():
        of_it = [replace(one, bounds={model: one.bounds[model]}) for one in found if model in one.bounds]
        rows.append(_row("all", model, of_it))
    notes = [
        "From a rehearsal without the language model: least and most are of one that knows everything and of one that "
        "knows nothing. What runs share is counted for each, and a request that brings several samples as several.",
    ]
    unknown = [model for model in models if price(model, Spent()) is None]
    if unknown:
        notes.append(
            f"The price of {', '.join(unknown)} is unknown: LiteLLM's price map does not have it, and no sum of "
            "dollars includes it."
        )
    return Grid("estimate", "What it will cost", _COLUMNS, tuple(rows), tuple(notes))


def _row(dataset: str, run: str, found: Sequence[Estimate], *, ruled: bool = False) -> Row:
    bounds = [one.total for one in found]
    ends = [sum((one.least for one in bounds), Spent()), sum((one.most for one in bounds), Spent())]
    counts = [_count(getattr(end, name)) for name in ("calls", "read", "written") for end in ends]
    paid = [_dollars(_price(found, which)) for which in (attrgetter("least"), attrgetter("most"))]
    return Row((text(dataset), text(run), _count(sum(one.questions for one in found)), *counts, *paid), ruled=ruled)


def _price(found: Sequence[Estimate], end: Callable[[Bounds], Spent]) -> float | None:
    """What the language models cost whose price is known; none where there is no such one."""
    prices = [price(model, end(bounds)) for one in found for model, bounds in one.bounds.items()]
    known = [one for one in prices if one is not None]
    return sum(known) if known else None


def _count(value: float) -> Cell:
    return Cell(round(value), f"{round(value):,}")


def _dollars(amount: float | None) -> Cell:
    return Cell(amount, "unknown" if amount is None else f"{amount:,.2f}")
