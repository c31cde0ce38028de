"""Calls that several settings of one program share: every draw and every other call is made once.

A program asked the same quiz under another α, or with a smaller N_c, needs no new tries: those of the largest N_c begin
with them. So the tries of a resolved quiz are drawn once, all of them, and every setting reads as many as it would have
drawn. The other calls are functions of what they are given and are kept likewise, in memory and in a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import dspy

from keqa.optimize.journal import Journal
from keqa.optimize.traces import digest, may_pass
from keqa.programs.calls import Bound, CallError, Session
from keqa.programs.examination import Assessment, Draw, Examination
from keqa.programs.keqa import KEQA
from keqa.programs.ledger import Event

__all__ = ["SharedDraws", "SharedSession", "with_shared_draws"]


class SharedSession(Session):
    """A session whose calls to predictors are answered by what was asked before, where it was."""

    def __init__(self, bound: Bound, journal: Journal, state: str) -> None:
        """Begin.

        Args:
            bound: How many calls may be in flight.
            journal: Where calls are kept.
            state: What instructions, demonstrations and reference the predictors have.
        """
        super().__init__(bound, blocking=True)
        self.journal, self.state = journal, state

    async def predict(
        self,
        predictor: dspy.Predict,
        role: str,
        *,
        config: dict[str, Any] | None = None,
        demos: Callable[[], Sequence[Any]] | None = None,
        **inputs: Any,
    ) -> dspy.Prediction:
        """Call a predictor, unless this very call was made before; see `Session.predict`."""
        if config:
            # A draw; all of a quiz are kept together.
            return await super().predict(predictor, role, config=config, demos=demos, **inputs)
        key = f"call:{digest([self.state, predictor.signature.__name__, inputs])}"
        kept = self.journal.get(key)
        if kept is not None:
            with Event(self.ledger, role, frozenset()):
                return _replayed(kept)
        try:
            prediction = await super().predict(predictor, role, demos=demos, **inputs)
        except CallError as error:
            if not may_pass(error.cause):
                flags = {"overflow": error.overflow, "unusable": error.unusable}
                self.journal.put(key, {"cause": error.cause, "message": error.message, **flags})
            raise
        self.journal.put(key, {"outputs": dict(prediction)})
        return prediction


class SharedDraws(Examination):
    """An examination that reads its tries from those of the largest N_c, drawn once for each resolved quiz."""

    def __init__(self, like: Examination, largest: int) -> None:
        """Set up.

        Args:
            like: An examination whose settings and predictors are taken.
            largest: The largest N_c.
        """
        super().__init__(like.tries, like.gate, like.temperature, like.top_p, like.seed, like.bound)
        self.quiz, self.same = like.quiz, like.same
        self.largest = max(largest, like.tries)

    async def _draw(self, session: Session, found: Assessment, count: int) -> None:
        if not count:
            return
        start = len(found.draws)
        found.draws += (await self._all(session, found))[start : start + count]
        await self._place(session, found, start)

    async def _all(self, session: Session, found: Assessment) -> list[Draw]:
        """All draws of the largest N_c, from the journal where they are there."""
        assert isinstance(session, SharedSession)
        asked = [found.quiz, found.answer_type, found.choices]
        drawn = [self.temperature, self.top_p, self.seed, self.largest]
        key = f"draws:{digest([session.state, asked, drawn])}"
        kept = session.journal.get(key)
        if kept is None:
            whole = Assessment(found.quiz, found.number, found.answer_type, found.choices, self.largest)
            texts = await self._draw_at_once(session, whole, self.largest) if self._takes_many() else None
            draws = whole.draws + [Draw(text) for text in texts or []]
            if not draws:
                draws = await session.gather([self._draw_one(session, whole, place) for place in range(self.largest)])
            kept = {"draws": [[draw.text, draw.error] for draw in draws]}
            if not any(draw.error and may_pass(draw.error) for draw in draws):
                session.journal.put(key, kept)
        return [Draw(text, error) for text, error in kept["draws"]]


def with_shared_draws(program: KEQA, largest: int) -> KEQA:
    """A copy of a program that shares its draws with other settings of itself.

    Args:
        program: It stays as it is.
        largest: The largest N_c of any setting.
    """
    twin: KEQA = program.deepcopy()
    twin.examination = SharedDraws(twin.examination, largest)
    return twin


def _replayed(kept: Mapping[str, Any]) -> dspy.Prediction:
    if "cause" in kept:
        raise CallError(kept["cause"], kept["message"], overflow=kept["overflow"], unusable=kept["unusable"])
    return dspy.Prediction(**kept["outputs"])
