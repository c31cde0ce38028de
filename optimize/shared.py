"""Calls that several settings of one program share.

Tries of a quiz are shared by `keqa.programs.draws`. The other calls are functions of what they are given; they are made
once and kept in a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from keqa.optimize.described import digest
from keqa.optimize.journal import Journal
from keqa.programs.call_errors import CallError
from keqa.programs.calls import Session
from keqa.programs.concurrency import Bound
from keqa.programs.failures import may_pass
from keqa.programs.ledger import Event
from keqa.redaction import without_secrets

__all__ = ["SharedSession"]


class SharedSession(Session):
    """A session whose calls to predictors are answered by what was asked before, where it was."""

    def __init__(self, bound: Bound, journal: Journal, state: str, root: str = "") -> None:
        """Begin.

        Args:
            bound: How many calls may be in flight.
            journal: Where calls are kept.
            state: What instructions, demonstrations and reference the predictors have.
            root: Id of the question, where the reference holds something of it: it then shows others than for another
                question.
        """
        super().__init__(bound, blocking=True)
        self.journal, self.state, self.root = journal, state, root

    async def predict(
        self,
        predictor: dspy.Predict,
        role: str,
        *,
        config: dict[str, Any] | None = None,
        demos: Callable[[], Sequence[Any]] | None = None,
        attempt: int = 0,
        **inputs: Any,
    ) -> dspy.Prediction:
        """Call a predictor, unless this very call was made before; see `Session.predict`."""
        if config:
            # A draw; those of a quiz are kept together.
            return await super().predict(predictor, role, config=config, demos=demos, **inputs)
        shown_to = self.root if demos is not None else ""
        called = [self.state, predictor.signature.__name__, inputs, shown_to]
        key = f"call:{digest([*called, attempt] if attempt else called)}"
        kept = self.journal.get(key)
        if kept is not None:
            with Event(self.ledger, role, frozenset(), self.step_of(predictor)):
                return _replayed(kept)
        try:
            prediction = await super().predict(predictor, role, demos=demos, attempt=attempt, **inputs)
        except CallError as error:
            if not may_pass(error.cause):
                flags = {"overflow": error.overflow, "unusable": error.unusable}
                told = {"message": error.message, "reply": error.reply}
                told = without_secrets(told, [predictor.lm or dspy.settings.lm])
                self.journal.put(key, {"cause": error.cause, **told, **flags})
            raise
        self.journal.put(key, {"outputs": dict(prediction)})
        return prediction


def _replayed(kept: Mapping[str, Any]) -> dspy.Prediction:
    if "cause" in kept:
        error = CallError(kept["cause"], kept["message"], overflow=kept["overflow"], unusable=kept["unusable"])
        error.reply = kept.get("reply")
        raise error
    return dspy.Prediction(**kept["outputs"])
