"""Scores with and without the questions that a failure touched.

A question that failed scores 0, and one that a failure decided something of scores as it came out; neither says
anything about the method. So wherever F1 and EM over all questions are shown, those over the untouched ones are
as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keqa.evaluation.reports.grid import Cell, Column, number
from keqa.evaluation.reports.measures import measure
from keqa.evaluation.reports.rows import Entry

_GROUP = "untouched by failures"
_SCORES = {"F1": "f1", "EM": "em"}
COLUMNS = (Column("questions", _GROUP), *(Column(name, _GROUP) for name in _SCORES))
"""The columns that `cells` fills."""


def any_touched(entries: Sequence[Entry]) -> bool:
    """Whether a failure touched any question of any row."""
    return any(line.touched for entry in entries for line in entry.lines.values())


def cells(entry: Entry) -> Iterator[Cell]:
    """How many of a row's questions are untouched, out of how many, and its scores over them."""
    lines = [line for line in entry.lines.values() if not line.touched]
    yield Cell(len(lines), f"{len(lines)}/{len(entry.lines)}")
    for name in _SCORES.values():
        yield number(measure(name, lines))


def note(entries: Sequence[Entry]) -> str:
    """The same in words, for tables without these columns."""
    if not any_touched(entries):
        return "Untouched by failures: all questions of all rows."
    untouched = []
    for entry in entries:
        if any(line.touched for line in entry.lines.values()):
            count, *scores = (cell.text or "-" for cell in cells(entry))
            untouched.append(f"{entry.title} {count} (F1 {scores[0]}, EM {scores[1]})")
    return (
        f"Untouched by failures, with the scores over these alone: {'; '.join(untouched)}; all questions of other rows."
    )
