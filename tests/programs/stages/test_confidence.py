"""Asking for the LM's confidence, and reading what it says."""

from __future__ import annotations

import asyncio

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.programs import KEQA
from keqa.programs.calls.session import Session
from keqa.programs.gates import ConfidenceGate
from keqa.programs.stages.gate_question import StatedConfidence, read_confidence


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("85", 0.85),
        ("85%", 0.85),
        ("85 %", 0.85),
        ("85 / 100", 0.85),
        ("8/10", 0.8),
        ("0.85", 0.85),
        (".85", 0.85),
        ("1.0", 1.0),
        ("1", 0.01),
        ("0.5%", 0.005),
        ("99.5", 0.995),
        ("100", 1.0),
        ("0", 0.0),
        ("I am 70 percent sure, of 2 things", 0.7),
        ("150", None),
        ("-5", None),
        ("sure", None),
        ("", None),
    ],
)
def test_reading(text, confidence):
    assert read_confidence(text) == (confidence if confidence is None else pytest.approx(confidence))


@given(st.integers(0, 100))
def test_what_is_asked_for_is_read_as_it_is_written(percentage):
    assert read_confidence(str(percentage)) == percentage / 100


@given(st.text())
def test_whatever_is_written_is_a_confidence_or_none(text):
    confidence = read_confidence(text)
    assert confidence is None or 0 <= confidence <= 1


def test_the_lm_is_asked_about_its_answer(scripted):
    lm, engine = scripted(lambda name, inputs, config: {"confidence": "90"})
    stage = StatedConfidence()
    stage.set_lm(lm)
    assert stage("Capital of Norway?", "Oslo") == 0.9
    assert engine.asked("StateConfidence") == [
        {"quiz": "Capital of Norway?", "answer_type": "short", "choices": "[]", "proposed_answer": "Oslo"}
    ]


@pytest.mark.parametrize(
    ("reply", "cause"),
    [("garbage", "AdapterParseError"), ({"confidence": "quite sure"}, "UnreadableConfidenceError")],
)
def test_a_confidence_that_cannot_be_had_is_none(scripted, reply, cause):
    lm, _ = scripted(lambda name, inputs, config: reply)
    stage = StatedConfidence()
    stage.set_lm(lm)
    session = Session(stage.bound, blocking=True)
    assert asyncio.run(session.run(stage.run("Capital of Norway?", "Oslo", number=2))) == 0.0
    told = [(note.stage, note.cause, note.quiz, note.touches) for note in session.degradations]
    # DSPy's own adapter asks for JSON as well where there is no field, and both replies count.
    mended = 2 if cause == "AdapterParseError" else 1
    assert told == [("state_confidence", cause, 2, touches) for touches in [False] * mended + [True]]


@pytest.mark.parametrize(("stated", "source"), [("80", "memory"), ("79", "largest_cluster")])
def test_a_program_that_trusts_what_its_lm_says(scripted, stated, source):
    drawn = iter(["Oslo", "Bergen", "Oslo", "Oslo", "Oslo"])

    def reply(name, inputs, config):
        if name == "AnswerQuiz":
            return {"answer": next(drawn)}
        return {"confidence": stated} if name == "StateConfidence" else {"same": False}

    lm, engine = scripted(reply)
    program = KEQA(None, decompose=False, gate=ConfidenceGate(), workers=1)
    program.set_lm(lm)
    story = program("Capital of Norway?").record
    (quiz,) = story.quizzes
    assert (story.answer, quiz.source, quiz.gate) == ("Oslo", source, "verbalised confidence")
    assert (quiz.certainty, quiz.threshold_exact) == (float(stated) / 100, "4/5")
    # Oslo leads for good after four draws, known or not.
    assert engine.count["AnswerQuiz"] == 4
    assert engine.count["StateConfidence"] == 1
    assert story.cost.by_role["task"].calls == engine.count["AnswerQuiz"] + 1


def test_only_a_gate_that_asks_brings_a_predictor():
    assert "examination.confidence.state" in dict(KEQA(None, gate=ConfidenceGate()).named_predictors())
    assert "examination.confidence.state" not in dict(KEQA(None).named_predictors())


def test_with_dspys_own_dummy():
    stage = StatedConfidence()
    stage.set_lm(dspy.utils.DummyLM([{"confidence": "75"}]))
    assert stage("Capital of Norway?", "Oslo") == 0.75
