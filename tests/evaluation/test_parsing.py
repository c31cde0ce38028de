from fractions import Fraction

import pytest

from keqa.evaluation.parsing import Parsed, unreadable
from keqa.programs import KEQA
from keqa.programs.program import UnansweredError
from keqa.programs.records import CallCost, Cost, Degradation, Failure, QuestionRecord


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
