"""An estimate as a table: calls, tokens and price of every run, from the least to the most."""

from __future__ import annotations

from collections.abc import Sequence

from keqa.reports.estimate import Bounds, Estimate, Spent, price
from keqa.reports.grid import Cell, Column, Grid, Row, text

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
    """A row a method and data set, and their sum.

    Args:
        found: What was rehearsed.
    """
    prices = [[price(one.model, end) for end in (one.bounds.least, one.bounds.most)] for one in found]
    rows = [
        Row((text(one.dataset), text(one.label), _count(one.questions), *_counts([one.bounds]), *map(_dollars, paid)))
        for one, paid in zip(found, prices, strict=True)
    ]
    every = (_count(sum(one.questions for one in found)), *_counts([one.bounds for one in found]))
    rows.append(Row((text("all"), text(""), *every, *map(_dollars, _totals(prices))), ruled=True))
    notes = [
        "From a rehearsal without the language model: least and most are of one that knows everything and of one that "
        "knows nothing. What runs share is counted for each, and a request that brings several samples as several.",
    ]
    unknown = dict.fromkeys(one.model for one, paid in zip(found, prices, strict=True) if None in paid)
    if unknown:
        notes.append(f"The price of {', '.join(unknown)} is unknown: LiteLLM's price map does not have it.")
    return Grid("estimate", "What it will cost", _COLUMNS, tuple(rows), tuple(notes))


def _counts(bounds: Sequence[Bounds]) -> list[Cell]:
    least, most = (sum(ends, Spent()) for ends in ([b.least for b in bounds], [b.most for b in bounds]))
    return [_count(getattr(end, name)) for name in ("calls", "read", "written") for end in (least, most)]


def _totals(prices: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The sums of the least and of the most; none where a price is unknown."""
    totals: list[float | None] = []
    for ends in zip(*prices, strict=True):
        known = [one for one in ends if one is not None]
        totals.append(sum(known) if len(known) == len(ends) else None)
    return totals


def _count(value: float) -> Cell:
    return Cell(round(value), f"{round(value):,}")


def _dollars(amount: float | None) -> Cell:
    return Cell(amount, "unknown" if amount is None else f"{amount:,.2f}")
