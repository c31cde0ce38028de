"""The language model that reflects: checked, asked once before any question is, and watched from then on.

DSPy's optimizers take each of its errors for a proposal that came to nothing, and continue. So a wrong key would spend
the whole budget, and what was found would be called no better.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer
from dspy.utils.callback import BaseCallback

from keqa.errors import ConfigurationError, KeqaError, MissingExtraError
from keqa.lms.factory import build_lm
from keqa.lms.outside import Guarded
from keqa.optimize.failures import FailureMonitor, Failures, TooManyFailuresError
from keqa.programs.runtime.errors import CallError, typed_error
from keqa.programs.runtime.failures import is_transient


def as_reflecting(lm: Any, optimizer: str) -> dspy.BaseLM:
    """The language model that reflects, built where a model string names it."""
    if lm is None:
        raise ConfigurationError(
            f"{optimizer} needs a language model that is able to reflect on what went wrong and to write instructions: "
            "name one with reflection_lm=... (on the command line, --reflection-lm)"
        )
    if isinstance(lm, str):
        return build_lm(lm)
    if not isinstance(lm, dspy.BaseLM):
        raise ConfigurationError(f"reflection_lm must be a language model or a model string, not {lm!r}")
    return lm


def ask_once(lm: dspy.BaseLM) -> None:
    """Make sure that it can be asked, before questions are asked for nothing."""
    try:
        lm("Reply with one word: ready")
    except Exception as error:
        raise _explained(error, lm) from error


@contextmanager
def watched(lm: dspy.BaseLM) -> Iterator[dspy.BaseLM]:
    """Lend it to an optimizer, which is ended at once where no further request could do better."""
    watch = Failures().watch("asking the reflection LM")
    try:
        yield lm.copy(callbacks=[*lm.callbacks, _Watching(watch, lm)])
    except _Ended as ended:
        raise ended.error from ended.__cause__
    requests = watch.summary
    if requests.asked and requests.failed == requests.asked:
        raise ConfigurationError(f"the reflection LM answered none of {requests.asked} requests ({requests.cause})")


def guarded(proposer: InstructionProposer | None = None) -> InstructionProposer:
    """What writes GEPA's instructions, on guard: a passage or an answer that it is shown cannot close a field."""
    found: InstructionProposer = copy.copy(proposer) if proposer is not None else InstructionProposer()
    found.adapter = Guarded(found.adapter)
    return found


class _Ended(BaseException):
    """Goes through the optimizer, which would survive an `Exception`."""

    def __init__(self, error: KeqaError) -> None:
        super().__init__(str(error))
        self.error = error


class _Watching(BaseCallback):
    """Hears how each request ended."""

    def __init__(self, watch: FailureMonitor, lm: dspy.BaseLM) -> None:
        self._watch, self._lm = watch, lm

    def on_lm_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
        """Count the request, and end the optimizer where further requests are of no use."""
        failure = typed_error(exception, [self._lm]) if isinstance(exception, Exception) else None
        if failure is not None and not isinstance(failure, CallError):
            raise _Ended(_explained(exception, self._lm)) from exception
        cause = None if failure is None else failure.cause
        try:
            self._watch.outcome(cause, str(failure) if cause and is_transient(cause) else None)
        except TooManyFailuresError as error:
            raise _Ended(error) from exception


def _explained(error: Exception, lm: dspy.BaseLM) -> KeqaError:
    """The error as the project's own, which names the language model's role."""
    found = typed_error(error, [lm])
    if isinstance(found, MissingExtraError):
        return found
    kind = TooManyFailuresError if isinstance(found, CallError) and is_transient(found.cause) else ConfigurationError
    return kind(f"the reflection LM (reflection_lm) cannot be asked: {found}")
