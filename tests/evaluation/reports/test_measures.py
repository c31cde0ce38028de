"""What a question costs, from lines made by hand."""

from fractions import Fraction

import pytest

from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.paper import costs, costs_by_role
from keqa.evaluation.reports.questions import Parsed, brief_of, measure, parsed, unreadable
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper
from keqa.evaluation.tally import Tally
from keqa.programs import KEQA
from keqa.programs.program import UnansweredError
from keqa.programs.records import CallCost, Cost, Degradation, Failure, QuestionRecord


@pytest.fixture
def drawn(line):
    """A question whose eight tries went out in two requests, with calls of the other roles."""
    one = line(0, 1.0)
    roles = {
        "task": CallCost(calls=2, samples=8, prompt_tokens=50, completion_tokens=10),
        "consistency": CallCost(calls=2, cached=1, prompt_tokens=200, completion_tokens=3),
        "utility": CallCost(calls=10, prompt_tokens=4000, completion_tokens=30),
    }
    cost = one.record.cost.model_copy(update={"by_role": roles})
    return one.model_copy(update={"record": one.record.model_copy(update={"cost": cost})})


def test_lm_calls_are_tries_and_requests_are_what_was_sent(drawn):
    lines = [brief_of(drawn)]
    expected = {
        "samples": 21,
        "task samples": 8,
        "consistency samples": 3,
        "utility samples": 10,
        "requests": 15,
        "calls": 14,
        "tokens": 4293,
        "task tokens": 60,
        "consistency tokens": 203,
        "utility tokens": 4030,
    }
    assert {name: measure(name, lines) for name in expected} == expected
    assert not lines[0].timed


def test_the_share_that_did_not_parse_is_that_of_all_tries(drawn):
    notes = [Degradation(stage="examine", cause="AdapterParseError", message="", action="")] * 2
    spoilt = drawn.model_copy(update={"record": drawn.record.model_copy(update={"degradations": notes})})
    # Of the 15 requests they would be more than a tenth.
    assert parsed([brief_of(spoilt)]) == Parsed(2, 21)
    assert parsed([brief_of(spoilt)]).comparable


def test_a_run_as_it_stands_counts_them_too(drawn):
    tally = Tally(1)
    tally.add(drawn)
    assert (tally.cost.samples, tally.cost.lm_requests, tally.cost.calls) == (21, 15, 14)


def test_tables_count_samples_as_lm_calls(drawn, run):
    entries = entries_of([run("keqa", [drawn])])

    def shown(grid):
        return {column.full: cell.text for column, cell in zip(grid.columns, grid.rows[0].cells, strict=True)}

    assert (shown(overall(entries))["LM calls"], shown(overall(entries))["sent"]) == ("21.0", "14.0")
    assert shown(costs(entries))["L"] == "21.00"
    assert shown(costs_by_role(entries))["LM calls task"] == "8.00"


def test_beside_the_papers_costs_stand_those_of_the_task_role(drawn, run):
    grid = compare_with_paper(entries_of([run("keqa", [drawn], dataset="nq")]))[-1]
    assert grid.name == "paper-table5"
    shown = {column.full: cell.text for column, cell in zip(grid.columns, grid.rows[0].cells, strict=True)}
    assert (shown["nq L here"], shown["nq L paper"]) == ("8.000", "5.080")
    assert (shown["nq token here"], shown["nq token paper"]) == ("60.000", "239.000")
    assert any("D_s and D_u" in note for note in grid.notes)


def parse_failures(records):
    outputs = sum(record.cost.samples for record in records)
    return Parsed(min(sum(map(unreadable, records)), outputs), outputs)


def note(stage, cause):
    return Degradation(stage=stage, cause=cause, message="", action="")


def record(calls, *notes, failure=None):
    return QuestionRecord(
        question="q",
        degradations=list(notes),
        failure=failure and Failure(stage=failure[0], cause=failure[1], message=""),
        cost=Cost(by_role={"task": CallCost(calls=calls - 1, cached=1)}),
    )


def test_counted_by_hand():
    parsed = parse_failures(
        [
            record(10, note("examine", "AdapterParseError"), note("retrieve", "TimeoutError")),
            record(5, note("answer", "TruncatedReplyError"), note("examine", "LMServerError")),
            # Nothing stands in for a summary.
            record(4, note("examine", "EmptyAnswerError"), failure=("summarize", "AdapterParseError")),
            # The failure of a question whose last stage was noted is that note.
            record(1, note("answer", "AdapterParseError"), failure=("answer", "AdapterParseError")),
        ]
    )
    assert parsed == Parsed(5, 20)
    assert parsed.share == Fraction(1, 4)
    assert not parsed.comparable


def test_a_tenth_is_still_comparable():
    assert Parsed(1, 10).comparable
    assert not Parsed(11, 100).comparable
    assert Parsed(0, 0).share == 0


def test_from_a_programs_own_record(scripted):
    drawn = iter(["Oslo", None, "Oslo", "Oslo", "Oslo"])

    def reply(name, inputs, config):
        text = next(drawn)
        return {"answer": text} if text else "no marker in sight"

    lm, engine = scripted(reply)
    program = KEQA(None, decompose=False, workers=1)
    program.set_lm(lm)
    story = program("Capital of Norway?").record
    assert parse_failures([story]) == Parsed(1, len(engine.calls)) == Parsed(1, 5)


def test_a_question_that_failed_for_its_format(scripted):
    lm, engine = scripted(lambda name, inputs, config: "nothing")
    program = KEQA(None, decompose=False, workers=1)
    program.set_lm(lm)
    with pytest.raises(UnansweredError) as caught:
        program("Capital of Norway?")
    # Four of five draws settle that it is unknown; the fifth, and five attempts from memory, were to stand in.
    assert parse_failures([caught.value.record]) == Parsed(10, len(engine.calls)) == Parsed(10, 10)
