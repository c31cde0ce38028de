"""Calls that several settings of one program share.

Tries of a quiz are shared by `keqa.programs.runtime.shared_samples`, which gives a gate all draws of a quiz as soon as
it wants one. Here a gate gets them wave by wave, as the program itself would make them, and is charged for those that
it takes: verdict, answer and number of calls are those of the program, so that settings can be weighed by cost. The
other calls are functions of what they are given; they are made once and kept in a journal.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any

import dspy
from pydantic import Field

from keqa.optimize.boundary.collect import EveryDraw
from keqa.programs.fingerprint import digest
from keqa.programs.gates import asks
from keqa.programs.records import Record
from keqa.programs.runtime.concurrency import CallLimiter, reached
from keqa.programs.runtime.cost import Event, Ledger
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.failures import is_transient
from keqa.programs.runtime.session import Session
from keqa.programs.runtime.shared_samples import SharedExamination
from keqa.programs.stages.examination import Assessment
from keqa.storage.journal import Journal
from keqa.storage.redaction import without_secrets

_OPTIONS = frozenset({"config", "demos", "attempt", "usable"})
"""Arguments of `Session.predict` that are no inputs of the predictor."""


class SharedSession(Session):
    """A session whose calls to predictors are answered by what was asked before, where it was."""

    def __init__(self, bound: CallLimiter, journal: Journal, state: str, root: str = "") -> None:
        """Begin."""
        super().__init__(bound, blocking=True)
        self.journal, self.state, self.root = journal, state, root

    async def predict(self, predictor: dspy.Predict, role: str, **arguments: Any) -> dspy.Prediction:
        """Call a predictor, unless this very call was made before; see `Session.predict`.

        A reply that cannot be used is not kept: another attempt may get a better one.
        """
        if arguments.get("config"):
            # A draw; those of a quiz are kept together.
            return await super().predict(predictor, role, **arguments)
        inputs = {name: value for name, value in arguments.items() if name not in _OPTIONS}
        shown_to = self.root if arguments.get("demos") is not None else ""
        attempt = arguments.get("attempt", 0)
        called = [self.state, predictor.signature.__name__, inputs, shown_to]
        key = f"call:{digest([*called, attempt] if attempt else called)}"
        kept = self.journal.get_as(key, _Call.model_validate)
        if kept is not None:
            with Event(self.ledger, role, frozenset(), self.step_of(predictor)):
                return kept.replayed()
        try:
            prediction = await super().predict(predictor, role, **arguments)
        except CallError as error:
            if not (error.unusable or is_transient(error.cause)):
                message = without_secrets(error.message, [predictor.lm or dspy.settings.lm])
                self.journal.put(key, {"cause": error.cause, "message": message, "overflow": error.overflow})
            raise
        self.journal.put(key, {"outputs": dict(prediction)})
        return prediction


class _Call(Record):
    """What a journal keeps of a call: its outputs, or the error that it failed with."""

    outputs: dict[str, Any] = Field(default_factory=dict)
    cause: str | None = None
    message: str = ""
    overflow: bool = False

    def replayed(self) -> dspy.Prediction:
        if self.cause is not None:
            raise CallError(self.cause, self.message, overflow=self.overflow)
        return dspy.Prediction(**self.outputs)


class WaveExamination(SharedExamination):
    """An examination whose draws are made once for all settings, of which it takes as many as its gate asks for."""

    async def _draw(self, session: Session, found: Assessment, count: int) -> None:
        if not count:
            return
        start = len(found.draws)
        kind = found.answer_type, found.choices
        settings = {"place": found.place, "predictor": found.predictor}
        whole = Assessment(found.quiz, found.number, *kind, found.tries, **settings)
        # In a ledger of its own: what all draws take is not what these take.
        making = copy.copy(session)
        making.ledger, making.degradations = Ledger(), []
        # In a task of its own: the calls of one ledger do not wait for those of another.
        await asyncio.create_task(self._draws.value.fill(making, whole, self._drawing()))
        if not start:
            session.degradations += making.degradations
        role = self.roles["quiz"]
        for position in range(start, start + count):
            found.draws.append(replace(whole.draws[position], abstained=False, cluster=None))
            if whole.probabilities:
                found.probabilities[position] = whole.probabilities.get(position)
            with Event(session.ledger, role, reached.get(), session.step_of(found.predictor or self.quiz)):
                pass
        await self._place(session, found, start)

    def _drawing(self) -> SharedExamination:
        """What makes all draws: with probabilities where there are any, unless the gate cannot do without."""
        gate = self.gate if asks(self.gate) == "probabilities" else EveryDraw()
        return SharedExamination(self, gate, self._draws.value)
