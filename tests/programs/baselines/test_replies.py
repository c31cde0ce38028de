"""What the methods that ask what the LM knows share: replies in hand, copies, optimizers, event loops, overflows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.lm15 import ContextLengthError

from keqa.data.question import Question
from keqa.programs.baselines import Rowen, SelfRAG, SlimPLM
from keqa.programs.baselines.reading import Reply, from_memory, from_passages
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.signatures import AnswerQuestion, AnswerWithKnowledge, ReasonWithKnowledge

METHODS = (SelfRAG, Rowen, SlimPLM)
ASKED = Question("Who?", "short", [])


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {
        "DecideRetrieval": {"retrieve": True},
        "JudgeRelevance": {"relevant": True},
        "JudgeSupport": {"support": "fully"},
        "RateUsefulness": {"usefulness": 5},
        "TranslateQuestion": {"translated": f"{inputs.get('question')} In Chinese?"},
        "RephraseQuestion": {"rephrased": f"Who, put {config.seed}?"},
        "JudgeConsistency": {"same": False},
        "JudgeHeuristicAnswer": {"known": False},
        "RewriteQueries": {"queries": '["Who?"]'},
        "ReasonFromMemory": {"reasoning": "because", "answer": "Bo"},
        "AnswerQuestion": {"answer": "Cy" if "Chinese" in inputs.get("question", "") else "Bo"},
        "AnswerWithKnowledge": {"answer": "Ann"},
    }[name]


@pytest.mark.parametrize("method", METHODS)
async def test_they_answer_within_an_event_loop(scripted, retriever, method):
    program = method(retriever("one", "two"))
    program.set_lm(scripted(reply)[0])
    record = (await program.acall(question="Who?")).record
    assert (record.answer, record.answer_source, record.method) == ("Ann", "passages", program.method)
    assert [quiz.answer for quiz in record.quizzes] == ["Ann"]


@pytest.mark.parametrize("method", METHODS)
def test_copies_share_language_models_and_retriever(scripted, retriever, method):
    made = {role: scripted(reply)[0] for role in ("task", "consistency", "utility")}
    program = method(retriever("one"), lms=SimpleNamespace(**made))
    for copied in (program.deepcopy(), program.reset_copy()):
        assert all(predictor.lm in made.values() for predictor in copied.predictors())
        assert copied(question="Who?").answer == "Ann"


@pytest.mark.parametrize("method", METHODS)
def test_bootstrapping_finds_demonstrations_for_their_predictors(scripted, retriever, method):
    program = method(retriever("one"))
    program.set_lm(scripted(reply)[0])
    train = [dspy.Example(question=f"Who? {i}", answer="Ann").with_inputs("question") for i in range(2)]
    optimizer = dspy.BootstrapFewShot(
        metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
        max_bootstrapped_demos=2,
        max_labeled_demos=0,
    )
    compiled = optimizer.compile(program, trainset=train)
    assert len(compiled.read.demos) == 2
    assert compiled(question="Who?").answer == "Ann"


@pytest.mark.parametrize("signature", [AnswerWithKnowledge, ReasonWithKnowledge])
async def test_passages_that_overflow_are_read_by_half(scripted, retriever, signature):
    def small(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
        if "three" in inputs["passages"]:
            raise ContextLengthError("too long")
        return {"reasoning": "so", "answer": "Ann"}

    predictor = dspy.Predict(signature)
    predictor.set_lm(scripted(small)[0])
    session = Session(CallLimiter(2), blocking=False)
    hits = retriever("one", "two", "three", "four").search("Who?", 4)
    found = await from_passages(session, predictor, ASKED, hits)
    assert found == Reply("Ann", "so" if signature is ReasonWithKnowledge else "", 2)


async def test_an_empty_answer_is_a_failure(scripted):
    predictor = dspy.Predict(AnswerQuestion)
    predictor.set_lm(scripted(lambda name, inputs, config: {"answer": ""})[0])
    with pytest.raises(CallError, match="the answer was empty"):
        await from_memory(Session(CallLimiter(1), blocking=False), predictor, ASKED)
