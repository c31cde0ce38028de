"""Errors of one call, by kind."""

from __future__ import annotations

import asyncio

import dspy
import pytest
from dspy.utils.exceptions import LMAuthError, LMInvalidRequestError, LMServerError, LMUnexpectedError

from keqa.errors import ConfigurationError, RetrievalError
from keqa.lms.adapter import adapter
from keqa.programs.calls.errors import CallError, is_transient, typed_error
from keqa.programs.calls.session import Session
from keqa.programs.stages.stage import Decomposition


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        (LMInvalidRequestError("This model's maximum context length is 4096 tokens"), True),
        (LMInvalidRequestError("prompt is too long: 9000 tokens"), True),
        (dspy.ContextWindowExceededError(model="m"), True),
        (LMInvalidRequestError("temperature must be positive"), False),
        (LMServerError("context length exceeded"), False),
        (ValueError("odd"), False),
    ],
)
def test_overflow_is_told_by_type_or_message(error, overflow):
    typed = typed_error(error)
    assert isinstance(typed, CallError)
    assert (typed.cause, typed.overflow) == (type(error).__name__, overflow)


def test_long_messages_are_shortened():
    assert CallError("X", "no such page; " * 50).message == "no such page; " * 35 + "no such..."
    assert CallError("X", "y" * 500).message == "y" * 500


def test_a_secret_is_never_cut_in_two():
    secret = "sk-abc+def/012.345_678=="
    for before in range(440, 500):
        told = CallError("X", " " * before + f"'{secret}' is no key" + " of ours" * 9).message
        assert len(told) <= 500
        assert secret in told or "sk" not in told


@pytest.mark.parametrize(("kind", "typed"), [(LMAuthError, ConfigurationError), (LMServerError, CallError)])
def test_no_error_repeats_the_key_that_a_server_refused(kind, typed):
    lm = dspy.LM("openai/x", api_key="sk-proj-Abc123DEF456ghi789JKL")
    for echoed in ("sk-proj-Abc123DEF456ghi789JKL", "sk-proj-******9JKL"):
        error = typed_error(kind(f"no such key: {echoed}. " + "Go away. " * 100), [lm])
        assert isinstance(error, typed)
        assert "no such key: <secret>." in str(error)
        assert "JKL" not in str(error)


def raised(error):
    try:
        raise error
    except Exception as caught:
        return caught


@pytest.mark.parametrize(
    "fault",
    [TypeError("x"), AttributeError("x"), KeyError("x"), NameError("x"), NotImplementedError(), AssertionError()],
)
def test_a_fault_in_a_program_surfaces_as_it_is(fault):
    assert typed_error(raised(fault)) is fault
    # So it does out of a language model's class, from which DSPy reports an unexpected error.
    unexpected = LMUnexpectedError("x")
    unexpected.__cause__ = raised(fault)
    assert typed_error(unexpected) is fault


@pytest.mark.parametrize("error", [OSError("away"), TimeoutError("late"), RetrievalError("x"), LMServerError("x")])
def test_what_a_server_or_disk_does_can_be_degraded_around(error):
    assert isinstance(typed_error(raised(error)), CallError)


def test_what_a_client_library_trips_over_is_what_a_server_sent():
    scope = {"__name__": "litellm.llms.somebody", "error": AttributeError("choices")}
    exec("def read(): raise error", scope)
    unexpected = LMUnexpectedError("choices")
    with pytest.raises(AttributeError) as caught:
        scope["read"]()
    unexpected.__cause__ = caught.value
    assert typed_error(unexpected).cause == "LMUnexpectedError"


def test_a_reply_that_is_nested_too_deeply_is_one_that_cannot_be_used(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"quizzes": "[" * 100_000})
    stage = Decomposition()
    stage.set_lm(lm)
    session = Session(stage.bound, blocking=True)
    with dspy.context(adapter=adapter()):
        (quiz,) = asyncio.run(session.run(stage.run("Who?")))
    assert quiz.text == "Who?"
    assert {(note.cause, note.stage) for note in session.degradations} == {("AdapterParseError", "decompose")}


@pytest.mark.parametrize("cause", ["LMServerError", "LMRateLimitError", "LMTimeoutError", "RetrievalError"])
def test_what_another_attempt_may_not_meet(cause):
    assert is_transient(cause)


@pytest.mark.parametrize("cause", ["AdapterParseError", "EmptyAnswerError", "LMInvalidRequestError", "Any", ""])
def test_what_every_attempt_would_meet(cause):
    assert not is_transient(cause)
