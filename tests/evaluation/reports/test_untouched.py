"""Scores with and without the questions that a failure touched, in every table that shows scores."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from keqa.cli.running import figures, run_table
from keqa.evaluation.reports.gates import gates
from keqa.evaluation.reports.parts import untouched_note
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.tally import Tally
from keqa.programs.records import Degradation


def with_note(line, cause="LMServerError", *, harmless=False):
    note = Degradation(stage="decompose", cause=cause, message="", action="", harmless=harmless)
    return line.model_copy(update={"record": line.record.model_copy(update={"degradations": [note]})})


@pytest.fixture
def lines(line):
    """A right and a wrong answer, a wrong one that an outage touched, one that failed, one whose outage was mended."""
    return [line(0, 1.0), line(1, 0.0), with_note(line(2, 0.0)), line(3, 0.0, failed=True), mended(line)]


def mended(line):
    return with_note(line(4, 1.0), harmless=True)


def shown(grid):
    return {column.full: cell.text for column, cell in zip(grid.columns, grid.rows[0].cells, strict=True)}


@pytest.mark.parametrize("cause", ["AdapterParseError", "TruncatedReplyError", "RetrievalError", "OSError"])
def test_an_unusable_reply_touches_as_an_outage_does(line, cause):
    assert with_note(line(0, 1.0), cause).impairments == [cause]
    assert with_note(line(0, 1.0), cause, harmless=True).impairments == []


@pytest.mark.parametrize("cause", ["TooManyQuizzes", "Unsettled", "NoVerdict", "EmptyDecomposition", "StepLimit"])
def test_what_the_language_model_said_is_no_failure(line, cause):
    assert not with_note(line(0, 1.0), cause).touched


def test_other_tables_report_both_under_them(run, lines, quiz, line):
    entries = entries_of([run("keqa", lines), run("rag", [line(number, 1.0) for number in range(5)])])
    assert untouched_note(entries) == (
        "Untouched by failures, with the scores over these alone: KEQA 3/5 (F1 .667, EM .667); all questions of other "
        "rows."
    )
    decided = [quiz("Quiz?", ["a"] * 5, [[0, 1, 2, 3, 4]], known=True)]
    lost = with_note(line(0, 0.0, quizzes=decided))
    grid = gates(entries_of([run("gate-votes", [lost], gate="votes")]))
    assert any("0/1 (F1 -, EM -)" in note for note in grid.notes)


def test_evaluate_and_compare_show_both(lines):
    tally = Tally(5)
    for one in lines:
        tally.add(one)
    row = SimpleNamespace(
        spec=SimpleNamespace(label="keqa", method=SimpleNamespace(name="keqa")), path="keqa.jsonl", tally=tally
    )
    cells = shown(run_table([row])._grid)
    assert (cells["F1"], cells["untouched"], cells["untouched F1"], cells["untouched EM"]) == (
        ".400",
        "3/5",
        ".667",
        ".667",
    )
    (figured,) = figures([row])
    assert (figured["untouched"], figured["failed"], figured["impaired"]) == (3, 1, 1)
    assert figured["untouched_scores"]["f1"] == pytest.approx(2 / 3)
    whole = Tally(1)
    whole.add(lines[0])
    row.tally = whole
    rendered = run_table([row])._grid
    assert "untouched F1" not in shown(rendered)
    assert "Untouched by failures: all 1 questions." in rendered.notes
