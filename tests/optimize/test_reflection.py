"""A language model that reflects and cannot be asked: told at once, by its own name, and before questions are asked."""

from __future__ import annotations

from types import SimpleNamespace

import dspy
import pytest
from conftest import AsyncScriptedEngine
from dspy.lm15 import AuthError, BillingError, InvalidRequestError, Message, Response, ServerError, Usage

from keqa.errors import ConfigurationError, KeqaError
from keqa.optimize.compile import compile_program
from keqa.optimize.dspy_optimizers import _Ended, _Watching, ask_once
from keqa.optimize.failures import Failures, TooManyFailuresError
from keqa.optimize.options import Options

OPTIMIZERS = (("gepa", 60), ("mipro", 3), ("simba", 1))


class FailingEngine:
    """Answers so many requests, and fails then."""

    def __init__(self, error: Exception, answers: int) -> None:
        self.error, self.answers, self.asked = error, answers, 0

    def __deepcopy__(self, memo):
        return self

    def complete(self, request):
        self.asked += 1
        if self.asked > self.answers:
            raise self.error
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant("ready"),
            finish_reason="stop",
            usage=Usage(input_tokens=1, output_tokens=1, total_tokens=2),
        )

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def failing():
    """Makes a language model that fails."""

    def make(error, answers=0):
        engine = FailingEngine(error, answers)
        both = {"engine": engine, "async_engine": AsyncScriptedEngine(engine)}
        return SimpleNamespace(lm=dspy.LM("scripted/failing", **both, cache=False, num_retries=0), engine=engine)

    return make


def compile_by(name, world, lm, budget):
    compile_program(
        world.program,
        world.train,
        world.val,
        optimizer=name,
        reflection_lm=lm,
        budget=budget,
        reference=False,
        tuning=False,
    )


@pytest.mark.parametrize(("name", "budget"), OPTIMIZERS)
def test_it_is_asked_once_before_any_question(setting, failing, name, budget):
    world, reflection = setting(), failing(AuthError("no such key"))
    with pytest.raises(ConfigurationError, match=r"the reflection LM .* cannot be asked: LMAuthError: .*no such key"):
        compile_by(name, world, reflection.lm, budget)
    assert (reflection.engine.asked, world.engine.calls) == (1, [])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BillingError("not paid"), ConfigurationError),
        (InvalidRequestError("no such setting"), ConfigurationError),
        (ServerError("down"), TooManyFailuresError),
    ],
)
def test_a_server_that_may_come_back_is_told_from_a_wrong_setting(failing, error, kind):
    with pytest.raises(kind, match="the reflection LM"):
        ask_once(failing(error).lm)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "budget", "kind", "message", "asked"),
    [
        # A server that goes down ends the optimizer after a while.
        (ServerError("down"), 500, TooManyFailuresError, r"the reflection LM: 8 of 8 .*LMServerError", {9}),
        # Requests that all failed are not reported as having found nothing better.
        (
            InvalidRequestError("too long"),
            60,
            ConfigurationError,
            r"answered none of \d+ requests \(LMInvalidRequestError\)",
            range(2, 60),
        ),
    ],
)
def test_an_optimizer_without_a_reply_of_its_reflection_lm_fails(setting, failing, error, budget, kind, message, asked):
    world, reflection = setting(), failing(error, answers=1)
    with pytest.raises(kind, match=message):
        compile_by("gepa", world, reflection.lm, budget)
    assert reflection.engine.asked in asked


def test_no_key_is_told_with_what_it_failed_with(failing):
    """The key is in the message of whoever refuses it."""
    with pytest.raises(dspy.LMError) as refused:
        failing(AuthError("no such key: sk-of-reflection")).lm("first")
    watching = _Watching(Failures().watch("reflecting"), dspy.LM("openai/x", api_key="sk-of-reflection"))
    with pytest.raises(_Ended) as ended:
        watching.on_lm_end("1", None, refused.value)
    assert "no such key: " in str(ended.value.error)
    assert "sk-of" not in str(ended.value.error)


@pytest.mark.slow
def test_a_model_string_is_built_and_anything_else_refused(monkeypatch, failing):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert Options(optimizer="gepa", reflection_lm="openai/strong").reflection_lm.model == "openai/strong"
    monkeypatch.delenv("OPENAI_API_KEY")
    for wrong in ("openai/strong", "nobody/strong", "", 3, dspy.Predict("question -> answer")):
        with pytest.raises(KeqaError):
            Options(optimizer="gepa", reflection_lm=wrong)
