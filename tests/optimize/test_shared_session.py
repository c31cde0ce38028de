"""Which calls several settings of a program share."""

from __future__ import annotations

import dspy
import pytest
from dspy.lm15 import ContextLengthError, InvalidRequestError, ServerError

from keqa.lms.adapter import adapter
from keqa.optimize.shared_session import SharedSession
from keqa.programs.keqa import KEQA
from keqa.programs.runtime.concurrency import run_blocking
from keqa.programs.runtime.errors import CallError
from keqa.storage.journal import Journal

QUIZ = {"quiz": "Who?", "answer_type": "short", "choices": []}


@pytest.fixture
def world(scripted, tmp_path):
    """Calls one predictor in sessions of their own, and says how many requests came of it."""

    class World:
        def __init__(self):
            self.error = None
            lm, self.engine = scripted(self.reply)
            self.program = KEQA(None)
            self.program.set_lm(lm)
            self.journal = opened

        def reply(self, name, inputs, config):
            if self.error is not None:
                raise self.error
            return {"answer": f"answer {len(self.engine.calls)}"}

        def call(self, state="state", root="", **arguments):
            self.session = SharedSession(self.program.bound, self.journal, state, root)
            predict = self.session.predict
            with dspy.context(adapter=adapter()):
                quiz = self.program.examination.quiz
                return run_blocking(lambda: predict(quiz, "task", **QUIZ | arguments)).answer

    with Journal.open(tmp_path / "calls.jsonl", {}) as opened:
        yield World()


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({}, {}, True),
        ({}, {"state": "another"}, False),
        ({}, {"quiz": "Who else?"}, False),
        ({}, {"attempt": 1}, False),
        ({"attempt": 1}, {"attempt": 1}, True),
        ({"attempt": 1}, {"attempt": 2}, False),
        ({}, {"attempt": 0}, True),
        # What is shown to a question depends on it where the reference holds something of it.
        ({"root": "a"}, {"root": "b"}, True),
        ({"root": "a", "demos": list}, {"root": "b", "demos": list}, False),
        ({"root": "a", "demos": list}, {"root": "a", "demos": list}, True),
        # A draw is another each time.
        ({"config": {"temperature": 1.0}}, {"config": {"temperature": 1.0}}, False),
    ],
)
def test_the_same_call_is_made_once(world, first, second, shared):
    said = [world.call(**first), world.call(**second)]
    assert said == (["answer 1"] * 2 if shared else ["answer 1", "answer 2"])
    assert len(world.engine.calls) == len(set(said))
    assert len(world.journal) == (0 if "config" in first else len(set(said)))


def test_predictors_are_called_in_threads(world, monkeypatch):
    async def awaited(request):
        raise AssertionError("nothing but a blocking call")

    monkeypatch.setattr(world.program.examination.quiz.lm._async_engine_spec, "complete", awaited)
    assert world.call() == "answer 1"


@pytest.mark.parametrize(
    ("error", "cause", "overflow", "kept"),
    [
        (InvalidRequestError("no such thing"), "LMInvalidRequestError", False, True),
        (ContextLengthError("too long"), "ContextWindowExceededError", True, True),
        (ServerError("down"), "LMServerError", False, False),
    ],
)
def test_an_error_is_replayed_unless_it_may_pass(world, error, cause, overflow, kept):
    world.error, told = error, []
    for _ in range(2):
        with pytest.raises(CallError) as caught:
            world.call()
        told.append((caught.value.cause, caught.value.message, caught.value.overflow))
    assert told[0] == told[1]
    assert (told[0][0], told[0][2]) == (cause, overflow)
    assert str(error) in told[0][1]
    assert (len(world.journal) == 1) is kept
    calls = len(world.engine.calls)
    world.error = None
    if kept:
        with pytest.raises(CallError):
            world.call()
    else:
        world.call()
    assert (len(world.engine.calls) == calls) is kept
