"""What methods gain by saying "I do not know": how much they answer, and how much of that is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from keqa.evaluation.reports.grid import Column, Grid, Row, count, number, text
from keqa.evaluation.reports.measures import right
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.abstention import Abstention

TARGETS = (0.5, 0.75, 0.9)
"""The chances to be right from which on an answer is worth giving, for each of which there is a column of credit."""


def abstention(entries: Sequence[Entry]) -> Grid | None:
    """The table of abstention; None where no row was to hold a risk."""
    if not any("abstention" in (entry.settings.model_extra or {}) for entry in entries):
        return None
    columns = (
        Column("method", right=False),
        *map(Column, ("questions", "coverage", "risk")),
        *(Column(f"{target:g}", "credit by target") for target in TARGETS),
    )
    notes = (
        "Coverage: the share of the questions that were answered; one that failed was not. Risk: the share of the "
        'answers that are wrong by exact match; "I do not know" is no answer. Credit by a target t: 1 for a right '
        "answer, 0 for none, -t/(1-t) for a wrong one, so that an answer is worth giving where its chance to be right "
        "exceeds t.",
    )
    return Grid("abstention", "Abstention", columns, tuple(map(_row, entries)), notes)


def _row(entry: Entry) -> Row:
    lines = entry.lines.values()
    found = Abstention.of([right(line) if line.answered else None for line in lines])
    return Row(
        (
            text(entry.title),
            count(found.questions),
            number(found.coverage),
            number(found.risk),
            *(number(found.credit(target)) for target in TARGETS),
        )
    )
