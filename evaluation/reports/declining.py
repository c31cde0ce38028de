"""What was answered, and what was rightly declined, where the documents do not say everything that is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from keqa.evaluation.reports.grid import Cell, Column, number
from keqa.evaluation.reports.measures import right
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.abstention import Declining

COLUMNS = tuple(map(Column, ("answered", "right of answered", "right to decline", "unanswerable declined")))
NOTE = (
    "Answered: the share of the questions that were given an answer; right of answered: the share of these answers "
    "that are right by exact match; right to decline: of the questions that were declined, those without an answer in "
    "the documents; unanswerable declined: of the questions without one, those that were declined. In EM and F1 "
    "declining is right where there is no answer."
)
"""What the columns are."""


def declining_of(entry: Entry) -> Declining:
    """The counts of a row."""
    found = Declining()
    for line in entry.lines.values():
        found.add(
            answered=line.answered,
            right=right(line),
            declined=line.declined,
            found=line.unanswered,
            unanswerable=not line.answers,
        )
    return found


def columns(rows: Iterable[Declining]) -> tuple[Column, ...]:
    """The columns of a table with these rows; none where nothing was found missing, and everything has an answer."""
    return COLUMNS if any(row.shown for row in rows) else ()


def cells(row: Declining) -> Sequence[Cell]:
    """The cells of a row, for a table that has the columns."""
    return (
        number(row.coverage),
        number(row.right_of_answered),
        _of(row.right_to_decline, row.rightly, row.declined),
        _of(row.unanswered_ratio, row.rightly, row.unanswerable),
    )


def _of(share: float | None, part: int, whole: int) -> Cell:
    return number(None) if share is None else Cell(share, f"{part}/{whole}")
