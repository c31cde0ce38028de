"""Columns that several tables have where there is anything to say: of failures, of declining, of searching in vain."""

from collections.abc import Iterable, Sequence

from keqa.data.question import quiz_key
from keqa.evaluation.gold_quizzes import known_on_testbed
from keqa.evaluation.reports.grid import Cell, Named, fraction, number
from keqa.evaluation.reports.questions import measure
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.abstention import Declining, SearchRates

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
WRITTEN = ("citation recall", "citation precision", "answer contained", "list recall", "list precision")
"""Measures of written answers."""

WRITTEN_NOTE = (
    "Of written answers: citation recall, the share of the sentences that what they cite carries; citation precision, "
    "the share of the citations that are needed for it (ALCE), both by words and the judge of utility; answer "
    "contained, the share of the texts with a gold answer; recall and precision of lists by their members."
)
_TESTBED, _TINY = "testbed", "keqa/tiny"


def any_touched(entries: Iterable[Entry]) -> bool:
    """Whether a failure touched any question of any row."""
    return any(line.touched for entry in entries for line in entry.lines.values())


def untouched(entry: Entry) -> list[Named]:
    """How many of a row's questions no failure touched, and its scores over them."""
    lines = [line for line in entry.within() if not line.touched]
    cells = {"questions": Cell(len(lines), f"{len(lines)}/{len(entry.lines)}")}
    cells |= {name: number(measure(of, lines)) for name, of in (("F1", "f1"), ("EM", "em"))}
    return [((name, "untouched by failures"), cell) for name, cell in cells.items()]


def untouched_note(entries: Sequence[Entry]) -> str:
    """The same in words, for tables without these columns."""
    rows = []
    for entry in (entry for entry in entries if any_touched([entry])):
        count, f1, em = (cell.text or "-" for _, cell in untouched(entry))
        rows.append(f"{entry.title} {count} (F1 {f1}, EM {em})")
    if not rows:
        return "Untouched by failures: all questions of all rows."
    return f"Untouched by failures, with the scores over these alone: {'; '.join(rows)}; all questions of other rows."


def declining(row: Declining) -> list[Named]:
    """How a row fares with what has an answer and what has none; see `DECLINING_NOTE`."""
    return [
        ("answered", number(row.coverage)),
        ("right of answered", number(row.right_of_answered)),
        ("right to decline", fraction(row.rightly, row.declined)),
        ("unanswerable declined", fraction(row.rightly, row.unanswerable)),
    ]


def search_rates(entry: Entry) -> SearchRates | None:
    """What a row searched for beside what its language model was made to know."""
    # The weights follow the name, as in keqa/tiny@344cc3aebc1a.
    if (entry.settings.lm or "").partition("@")[0] != _TINY:
        return None
    truth = known_on_testbed()
    asked = [(truth.get(quiz_key(text)), searched) for line in entry.on(_TESTBED) for text, searched in line.searched]
    found = SearchRates.of((known, searched) for known, searched in asked if known is not None)
    return found if found.known or found.unknown else None


def searching(entries: Sequence[Entry]) -> tuple[dict[Entry, list[Named]], list[str]]:
    """The rates of each row, and what they are; empty where no row has them."""
    rates = {entry: search_rates(entry) for entry in entries}
    if not any(rates.values()):
        return {entry: [] for entry in entries}, []
    cells: dict[Entry, list[Named]] = {}
    for entry, found in rates.items():
        over, under = (None, None) if found is None else (found.over, found.under)
        cells[entry] = [("over-search", number(over)), ("under-search", number(under))]
    return cells, [_SEARCHING_NOTE]
