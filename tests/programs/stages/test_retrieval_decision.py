"""Asking the LM whether it needs passages, and the gate that goes by it."""

from __future__ import annotations

import asyncio

import pytest

from keqa.programs import KEQA
from keqa.programs.calls.session import Session
from keqa.programs.gates import NeverRetrieveGate, PromptGate
from keqa.programs.shared_draws import SharedDraws
from keqa.programs.stages.gate_question import RetrievalDecision

QUIZ = "Capital of Norway?"


def replying(retrieve):
    def reply(name, inputs, config):
        return {
            "DecideRetrieval": {"retrieve": retrieve} if isinstance(retrieve, bool) else retrieve,
            "JudgeConsistency": {"same": False},
            "JudgeUtility": {"helpful": True},
            "StateConfidence": {"confidence": "90"},
            "AnswerWithKnowledge": {"answer": "Bergen"},
        }.get(name, {"answer": "Oslo"})

    return reply


@pytest.fixture
def deciding(scripted, retriever):
    """A program that goes by what its LM says of itself, and the engine behind it."""

    def make(retrieve, gate=None):
        lm, engine = scripted(replying(retrieve))
        program = KEQA(retriever("Bergen."), decompose=False, gate=gate or PromptGate(), workers=1)
        program.set_lm(lm)
        return program, engine

    return make


def test_the_lm_is_asked_about_the_quiz(scripted):
    lm, engine = scripted(replying(False))
    stage = RetrievalDecision()
    stage.set_lm(lm)
    assert stage(QUIZ) is False
    assert engine.asked("DecideRetrieval") == [{"question": QUIZ}]


@pytest.mark.parametrize("reply", ["garbage", {"retrieve": "perhaps"}])
def test_a_reply_that_cannot_be_used_retrieves(scripted, reply):
    lm, _ = scripted(replying(reply))
    stage = RetrievalDecision()
    stage.set_lm(lm)
    session = Session(stage.bound, blocking=True)
    assert asyncio.run(session.run(stage.run(QUIZ, number=2))) is True
    *_, note = session.degradations
    assert (note.stage, note.action, note.quiz) == ("decide_retrieval", "retrieved", 2)


def test_who_needs_no_passages_answers_from_memory(deciding):
    program, engine = deciding(False)
    story = program(QUIZ).record
    (quiz,) = story.quizzes
    assert (story.answer, quiz.source, quiz.known, quiz.gate) == ("Oslo", "memory", True, "prompt")
    assert (quiz.certainty, quiz.threshold, quiz.retrieved) == (None, None, False)
    # Three equal draws of five fix which answer leads.
    assert engine.count == {"DecideRetrieval": 1, "AnswerQuiz": 3}
    assert story.cost.by_role["task"].calls == 4


def test_who_needs_passages_draws_nothing(deciding):
    program, engine = deciding(True)
    story = program(QUIZ).record
    (quiz,) = story.quizzes
    assert (story.answer, quiz.source, quiz.known, quiz.samples) == ("Bergen", "passages", False, [])
    assert engine.count["AnswerQuiz"] == 0
    assert engine.count["DecideRetrieval"] == 1


def test_a_failure_never_passes_for_knowing(deciding):
    program, _ = deciding("garbage")
    story = program(QUIZ).record
    assert story.quizzes[0].known is False
    touching = [(note.stage, note.action) for note in story.degradations if note.touches]
    assert touching == [("decide_retrieval", "retrieved")]


def test_it_is_asked_once_for_each_gate_on_shared_draws(deciding):
    program, engine = deciding(False, NeverRetrieveGate())
    draws = SharedDraws()
    told = [draws.sharing(program, gate)(QUIZ).record.quizzes[0] for gate in (PromptGate(), NeverRetrieveGate())]
    assert [(quiz.known, len(quiz.samples)) for quiz in told] == [(True, 5)] * 2
    assert engine.count == {"DecideRetrieval": 1, "AnswerQuiz": 5}
    assert "examination.decision.decide" not in dict(program.named_predictors())


def test_its_demonstrations_stay_with_shared_draws(deciding):
    program, engine = deciding(False)
    program.examination.decision.decide.demos = [{"question": "Capital of Gondor?", "retrieve": True}]
    SharedDraws().sharing(program)(QUIZ)
    assert any("Capital of Gondor?" in prompt for prompt in engine.prompts)


def test_only_this_gate_brings_the_predictor_and_a_saved_one_comes_back(deciding, tmp_path):
    import keqa
    from keqa.programs.saving.folder import save

    program, _ = deciding(False)
    program.examination.decision.decide.demos = [{"question": "Capital of Gondor?", "retrieve": True}]
    save(program, tmp_path / "deciding")
    loaded = keqa.load(tmp_path / "deciding", None)
    assert loaded.examination.gate == PromptGate()
    assert [dict(demo) for demo in loaded.examination.decision.decide.demos] == [
        {"question": "Capital of Gondor?", "retrieve": True}
    ]
    assert keqa.load(tmp_path / "deciding", None, threshold="1/2").examination.question is None
    save(KEQA(None), tmp_path / "voting")
    loaded = keqa.load(tmp_path / "voting", None, gate=PromptGate())
    assert loaded.examination.decision.decide.demos == []
