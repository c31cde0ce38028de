"""A program as DSPy's optimizers see it."""

from __future__ import annotations

from types import SimpleNamespace

import dspy
import pytest
from dspy.lm15 import AuthError

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking, without_own
from keqa.optimize.scoring import example_for_metrics
from keqa.optimize.student import Student
from keqa.storage.journal import Journal


@pytest.fixture
def student(tmp_path):
    """Wraps the program of a world, of which the answer and the quiz may change."""
    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:

        def make(world, name="gepa", asked=lambda: None):
            asking = Asking(journal, f1, in_flight=1)
            return Student(world.program, asking, ["answering.answer", "examination.quiz"], name, asked), asking

        yield make


def asked(student, example):
    one = example_for_metrics(example)
    return student(**one.inputs())


def test_a_question_is_answered_once_noted_and_counted(setting, student):
    world, done = setting(train=2), []
    wrapped, asking = student(world, asked=lambda: done.append(len(world.engine.calls)))
    with dspy.context(trace=[]):
        predictions = [asked(wrapped, world.train[0]) for _ in range(2)]
        trace = dspy.settings.trace
    calls = len(world.engine.calls)
    assert done == [calls, calls]
    for prediction in predictions:
        assert (prediction.answer, prediction.explanation) == ("Spouse0", "It follows.")
        assert prediction.record.question == world.train[0].question
    own = {id(predictor) for _, predictor in wrapped.named_predictors()}
    assert trace
    assert {id(predictor) for predictor, _, _ in trace} == own
    assert len(trace) % 2 == 0
    # What its own calls may become is not shown to it.
    demo = next({**inputs, **dict(outputs)} for predictor, inputs, outputs in trace if "quiz" in inputs)
    wrapped.program.examination.quiz.demos = [dspy.Example(**demo)]
    wrapped.program.learned = wrapped.known_to(wrapped.program)
    own, other = (without_own(wrapped.program, one) for one in world.train)
    assert (own.examination.quiz.demos, other) == ([], wrapped.program)
    assert asking.failures.found == []


def test_a_question_without_an_answer_is_a_prediction_without_one(setting, town, student):
    world = setting(town(refuses="Summarize"), train=1)
    wrapped, asking = student(world, "simba")
    for _ in range(2):
        prediction = asked(wrapped, world.train[0])
        assert (prediction.answer, prediction.record.failure.cause) == (None, "LMInvalidRequestError")
    (failed,) = asking.failures.found
    assert (failed.step, failed.asked, failed.failed) == ("simba", 2, 2)
    unasked = wrapped("x", "Who " * 5000)
    assert (unasked.answer, unasked.explanation, unasked.sources, unasked.record) == (None, "", [], None)


def test_what_no_question_escapes_is_raised_without_a_further_call_and_in_the_end(setting, student):
    world = setting(train=2)
    wrapped, _ = student(world)
    world.fail(AuthError("no such key"))
    with pytest.raises(ConfigurationError, match="no such key") as first, wrapped.surfacing():
        asked(wrapped, world.train[0])
    calls = len(world.engine.calls)
    with pytest.raises(ConfigurationError) as second:
        asked(wrapped, world.train[1])
    assert second.value is first.value
    assert len(world.engine.calls) == calls
    # The optimizer took it for a wrong answer, or for a reason to fail in its own way.
    with pytest.raises(ConfigurationError) as third, wrapped.surfacing():
        pass
    with pytest.raises(ConfigurationError) as fourth, wrapped.surfacing():
        raise ValueError("too many errors")
    assert third.value is fourth.value is first.value


def test_each_role_draws_as_the_optimizer_wants_on_its_own_model(setting, student):
    world = setting(train=1)
    roles = SimpleNamespace(task=world.lm, consistency=world.lm.copy(), utility=world.lm.copy(max_tokens=99))
    world.program.bind_lms(roles)
    wrapped, _ = student(world)
    assert wrapped.get_lm() is world.lm
    first = asked(wrapped, world.train[0])
    calls = len(world.engine.calls)
    wrapped.set_lm(world.lm.copy(temperature=0.9, rollout_id=3, max_tokens=7))
    answering, judge = wrapped.program.answering.answer.lm, wrapped.program.picking.judge.lm
    assert (answering.kwargs["temperature"], answering.kwargs["rollout_id"]) == (0.9, 3)
    assert (answering.kwargs["max_tokens"], judge.kwargs["max_tokens"]) == (256, 99)
    assert judge.kwargs["temperature"] == 0.9
    assert asked(wrapped, world.train[0]).answer == first.answer
    # Drawn in another way it is asked anew, and once.
    assert len(world.engine.calls) == 2 * calls
    asked(wrapped, world.train[0])
    assert len(world.engine.calls) == 2 * calls
    assert roles.task.kwargs["temperature"] == 0.0


def test_a_copy_without_demonstrations_stays_on_its_models(setting, student):
    world = setting()
    wrapped, _ = student(world)
    wrapped.program.answering.answer.demos = [dspy.Example(question="q")]
    copied = wrapped.reset_copy()
    assert copied.program.answering.answer.demos == []
    assert copied.program.answering.answer.lm is copied.get_lm() is world.lm
    assert wrapped.program is not world.program
    assert len(wrapped.program.answering.answer.demos) == 1
