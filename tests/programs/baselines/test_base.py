"""Passages that add up, and answers from memory and passages."""

import dspy
import pytest
from dspy.utils import DummyLM

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.programs.baselines.base import Baseline, Reply, conclude, from_memory, from_passages
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.session import CallLimiter, Session
from keqa.programs.stage import RecordBuilder
from keqa.programs.stages.picking import merged
from keqa.retrievers.base import Hit, Passage
from keqa.signatures.baselines import AnswerQuestion

ASKED = Question("Who?", "short", [])


def hits(*names):
    return [Hit(Passage(name, "", f"text of {name}"), 1.0) for name in names]


def ids(found):
    return [hit.passage.id for hit in found]


def test_searches_are_merged_in_turn_without_doubles_to_the_limit():
    assert ids(merged([hits("a", "b"), hits("c"), hits("a", "d", "e")], 4)) == ["a", "c", "b", "d"]
    assert ids(merged([hits("a", "b", "b", "c")])) == ["a", "b", "c"]


async def test_an_empty_answer_is_a_failure(scripted):
    predictor = dspy.Predict(AnswerQuestion)
    predictor.set_lm(scripted(lambda name, inputs, config: {"answer": ""})[0])
    with pytest.raises(CallError, match="the answer was empty"):
        await Session(CallLimiter(1), blocking=False).run(from_memory(predictor, ASKED))
    with pytest.raises(UnansweredError) as caught:
        conclude(RecordBuilder(question="Who?"), Reply(""), "closed_book")
    assert (caught.value.stage, caught.value.cause) == ("answer", "EmptyAnswerError")


class Careless(Baseline):
    """Asks a predictor that has no role, or writes no answer."""

    method = "careless"
    asks: bool = False

    def set_up(self):
        self.answer = dspy.Predict(AnswerQuestion)

    async def solve(self, asked, story):
        if self.asks:
            await from_memory(self.answer, asked)


def test_a_predictor_without_a_role_is_named_and_a_method_that_writes_no_answer_has_failed(programmed):
    asking, silent = (programmed(Careless(asks=asks), lambda *_: {"answer": "Ann"})[0] for asks in (True, False))
    with pytest.raises(ConfigurationError, match="the predictor of AnswerQuestion has no role"):
        asking("Who?")
    with pytest.raises(UnansweredError, match="careless wrote no answer") as caught:
        silent("Who?")
    assert (caught.value.record.answer_source, caught.value.record.failure.cause) == ("failed", "NoAnswerError")


async def test_a_prompt_is_given_what_it_has_a_place_for(caplog):
    session = Session(CallLimiter(1), blocking=False)
    from_question = dspy.Predict("question -> answer")
    from_knowledge = dspy.Predict("question, passages: list[str] -> answer")
    for predictor in (from_question, from_knowledge):
        predictor.set_lm(DummyLM([{"answer": "Ann"}] * 2))
    assert await session.run(from_memory(from_question, ASKED)) == Reply("Ann")
    assert await session.run(from_passages(from_question, ASKED, [])) == Reply("Ann")
    with pytest.raises(ConfigurationError, match="StringSignature has no input passages"):
        await session.run(from_passages(from_question, ASKED, hits("one")))
    assert await session.run(from_passages(from_knowledge, ASKED, hits("one"))) == Reply("Ann", read=1)
    # DSPy warns of each input that a signature does not have, in each call.
    assert not caplog.records
