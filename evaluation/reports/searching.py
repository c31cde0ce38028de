"""Over-search and under-search of a row, exact where the truth is known: of the testbed with the model that ships."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from keqa.data.quiz_references import plain
from keqa.evaluation.gold_quizzes import known_on_testbed
from keqa.evaluation.reports.grid import Cell, Column, number
from keqa.evaluation.reports.rows import Entry
from keqa.metrics.searching import SearchRates

_TESTBED, _TINY = "testbed", "keqa/tiny"
COLUMNS = (Column("over-search"), Column("under-search"))


def search_rates(entry: Entry) -> SearchRates | None:
    """What a row searched for beside what its language model was made to know.

    Args:
        entry: The row.

    Returns:
        None where that is not known: of other data or language models, and where no quiz asks for a fact in the
        testbed's words.
    """
    # The weights follow the name, as in keqa/tiny@344cc3aebc1a.
    if (entry.settings.lm or "").partition("@")[0] != _TINY:
        return None
    found = SearchRates.of(_decisions(entry))
    return found if found.known or found.unknown else None


def _decisions(entry: Entry) -> Iterator[tuple[bool, bool]]:
    truth = known_on_testbed()
    for (dataset, _, _), line in entry.lines.items():
        if dataset == _TESTBED:
            for text, searched in line.decisions:
                known = truth.get(plain(text))
                if known is not None:
                    yield known, searched


def columns(entries: Sequence[Entry]) -> tuple[Column, ...]:
    """The columns of the rates; none where no row has them."""
    return COLUMNS if any(search_rates(entry) is not None for entry in entries) else ()


def cells(entry: Entry) -> tuple[Cell, ...]:
    """The cells of a row, for a table that has the columns."""
    found = search_rates(entry)
    return (number(None), number(None)) if found is None else (number(found.over), number(found.under))


def notes(entries: Sequence[Entry]) -> tuple[str, ...]:
    """What the columns are, for a table that has them."""
    if not columns(entries):
        return ()
    return (
        "Over-search: of the quizzes for facts that the language model was trained on often, the share that was "
        "searched for; under-search: of those for facts that it never saw or saw out of date, the share that was not. "
        "Quizzes in words that the testbed has no fact for count nowhere, nor do facts that were seen sometimes.",
    )
