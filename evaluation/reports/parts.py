"""Columns that several tables have where there is anything to say: of failures, of declining, of searching in vain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from keqa.data.quiz_references import plain
from keqa.evaluation.gold_quizzes import known_on_testbed
from keqa.evaluation.reports.grid import EMPTY, Cell, Column, fraction, number
from keqa.evaluation.reports.questions import measure
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.abstention import Declining
from keqa.metrics.searching import SearchRates

UNTOUCHED = tuple(Column(name, "untouched by failures") for name in ("questions", "F1", "EM"))
"""Wherever F1 and EM over all questions are shown, those over questions that no failure touched are: what a failure
decided says nothing of the method."""

DECLINING = tuple(map(Column, ("answered", "right of answered", "right to decline", "unanswerable declined")))
DECLINING_NOTE = (
    "Answered: the share of the questions that were given an answer; right of answered: the share of these answers "
    "that are right by exact match; right to decline: of the questions that were declined, those without an answer in "
    "the documents; unanswerable declined: of the questions without one, those that were declined. In EM and F1 "
    "declining is right where there is no answer."
)
_SEARCHING_NOTE = (
    "Over-search: of the quizzes for facts that the language model was trained on often, the share that was "
    "searched for; under-search: of those for facts that it never saw or saw out of date, the share that was not. "
    "Quizzes in words that the testbed has no fact for count nowhere, nor do facts that were seen sometimes."
)
_TESTBED, _TINY = "testbed", "keqa/tiny"


def any_touched(entries: Iterable[Entry]) -> bool:
    """Whether a failure touched any question of any row."""
    return any(line.touched for entry in entries for line in entry.lines.values())


def untouched_cells(entry: Entry) -> tuple[Cell, ...]:
    """How many of a row's questions are untouched, out of how many, and its scores over them."""
    lines = [line for line in entry.all if not line.touched]
    scores = (number(measure(name, lines)) for name in ("f1", "em"))
    return Cell(len(lines), f"{len(lines)}/{len(entry.lines)}"), *scores


def untouched_note(entries: Sequence[Entry]) -> str:
    """The same in words, for tables without these columns."""
    shown = (
        (entry, *(cell.text or "-" for cell in untouched_cells(entry))) for entry in entries if any_touched([entry])
    )
    untouched = [f"{entry.title} {count} (F1 {f1}, EM {em})" for entry, count, f1, em in shown]
    if not untouched:
        return "Untouched by failures: all questions of all rows."
    return (
        f"Untouched by failures, with the scores over these alone: {'; '.join(untouched)}; all questions of other rows."
    )


def declining_of(entry: Entry) -> Declining:
    """What of a row was answered, and what rightly declined."""
    found = Declining()
    for line in entry.all:
        found.add(
            answered=line.answered,
            right=line.right,
            declined=line.declined,
            found=line.unanswered,
            unanswerable=not line.answers,
        )
    return found


def declining_cells(row: Declining) -> tuple[Cell, ...]:
    """The cells of `DECLINING`."""
    return (
        number(row.coverage),
        number(row.right_of_answered),
        fraction(row.rightly, row.declined),
        fraction(row.rightly, row.unanswerable),
    )


def search_rates(entry: Entry) -> SearchRates | None:
    """What a row searched for beside what its language model was made to know.

    None where that is not known: of other data or language models than the testbed's, and where no quiz asks for a fact
    in the testbed's words.
    """
    # The weights follow the name, as in keqa/tiny@344cc3aebc1a.
    if (entry.settings.lm or "").partition("@")[0] != _TINY:
        return None
    found = SearchRates.of(_decisions(entry))
    return found if found.known or found.unknown else None


def _decisions(entry: Entry) -> Iterator[tuple[bool, bool]]:
    truth = known_on_testbed()
    for (dataset, _, _), line in entry.lines.items():
        for text, searched in line.decisions if dataset == _TESTBED else ():
            if (known := truth.get(plain(text))) is not None:
                yield known, searched


def searching(entries: Sequence[Entry]) -> tuple[tuple[Column, ...], list[tuple[Cell, ...]], tuple[str, ...]]:
    """Columns of the rates, the cells of each row, and what they are; empty where no row has them."""
    rates = [search_rates(entry) for entry in entries]
    if not any(rates):
        return (), [() for _ in entries], ()
    cells = [(EMPTY, EMPTY) if found is None else (number(found.over), number(found.under)) for found in rates]
    return (Column("over-search"), Column("under-search")), [*cells], (_SEARCHING_NOTE,)
