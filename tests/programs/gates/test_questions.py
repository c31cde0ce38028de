"""What gates ask the LM: whether it needs passages, and how sure it is of its answer."""

import asyncio

import pytest
from fixtures.replies import Replies

import keqa
from keqa.data.question import Question
from keqa.programs import KEQA
from keqa.programs.calls.session import Session
from keqa.programs.gates import NeverRetrieveGate, PromptGate
from keqa.programs.gates.uncertainty import RetrievalDecision, StatedConfidence, read_confidence
from keqa.programs.shared_draws import SharedDraws

QUIZ = "Capital of Norway?"


@pytest.mark.parametrize(
    ("confidence", "texts"),
    [
        (0.85, ("85", "85%", "85 %", "85 / 100", "0.85", ".85")),
        (0.8, ("8/10", "8 out of 10", "4 out of 5", "It was 1871 with 80%.", "In the 19th century.\nConfidence: 80")),
        (1.0, ("1.0", "100")),
        (0.01, ("1",)),
        (0.005, ("0.5%",)),
        (0.995, ("99.5",)),
        (0.0, ("0",)),
        (0.7, ("I am 70 percent sure, of 2 things",)),
    ],
)
def test_reading(confidence, texts):
    assert list(map(read_confidence, texts)) == pytest.approx([confidence] * len(texts))
    assert list(map(read_confidence, ("150", "-5", "sure", "", "Of 2 I know 1", "80% or 90%", "7/5"))) == [None] * 7


@pytest.fixture
def saying(programmed, retriever):
    """A program by a gate whose LM says that it needs no passages and is sure, and its engine."""
    said = {"DecideRetrieval": {"retrieve": False}, "StateConfidence": {"confidence": "90"}}
    program = KEQA(retriever("Bergen."), decompose=False, gate=PromptGate(), workers=1)
    return programmed(program, Replies(**said, AnswerQuiz={"answer": "Oslo"}))


@pytest.mark.parametrize(
    ("kind", "reply", "failed", "cause"),
    [
        (RetrievalDecision, {"retrieve": "perhaps"}, True, "AdapterParseError"),
        (RetrievalDecision, "garbage {", True, "AdapterParseError"),
        (StatedConfidence, {"confidence": "quite sure"}, 0.0, "UnreadableConfidenceError"),
        (StatedConfidence, "garbage {", 0.0, "AdapterParseError"),
    ],
)
def test_what_cannot_be_read_is_asked_again_and_never_passes_for_knowing(scripted, kind, reply, failed, cause):
    stage, decides = kind(), kind is RetrievalDecision
    asked = (QUIZ,) if decides else (Question(QUIZ), "Oslo")
    told = (
        ("decide_retrieval", cause, "retrieved") if decides else ("state_confidence", cause, "taken for no confidence")
    )
    stage.set_lm(scripted(lambda name, inputs, config: reply)[0])
    session = Session(stage.bound, blocking=True)
    assert asyncio.run(session.run(stage.run(*asked, number=2))) == failed
    *mended, last = session.degradations
    assert (last.stage, last.cause, last.action, last.quiz, last.touches) == (*told, 2, True)
    assert {(one.action, one.touches) for one in mended} == {("asked again", False)}


def test_it_is_asked_once_for_each_gate_on_shared_draws_as_it_was_taught(saying):
    program, engine = saying
    program.examination.decision.decide.demos = [{"question": "Capital of Gondor?", "retrieve": True}]
    draws = SharedDraws()
    told = [draws.sharing(program, gate)(QUIZ).record.quizzes[0] for gate in (None, NeverRetrieveGate())]
    assert [(quiz.known, len(quiz.samples)) for quiz in told] == [(True, 5)] * 2
    assert engine.count == {"DecideRetrieval": 1, "AnswerQuiz": 5}
    assert any("Capital of Gondor?" in prompt for prompt in engine.prompts)


def test_a_gate_that_is_given_to_a_saved_program_brings_its_predictor_or_takes_it_away(tmp_path):
    keqa.save(KEQA(None, gate=PromptGate()), tmp_path / "deciding")
    assert keqa.load(tmp_path / "deciding", None, threshold="1/2").examination.question is None
    keqa.save(KEQA(None), tmp_path / "voting")
    loaded = keqa.load(tmp_path / "voting", None, gate=PromptGate())
    assert loaded.examination.decision.decide.demos == []
