"""Errors of one call, by kind."""

from __future__ import annotations

import dspy
import pytest
from dspy.utils.exceptions import LMAuthError, LMInvalidRequestError, LMServerError

from keqa.errors import ConfigurationError
from keqa.programs.call_errors import CallError, typed_error


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
