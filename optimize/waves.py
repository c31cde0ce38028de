"""Examinations that share draws and are charged for those that they take, so that settings can be weighed by cost.

`keqa.programs.runtime.shared_samples` gives a gate all draws of a quiz as soon as it wants one. Here a gate gets them
wave by wave, as the program itself would make them: verdict, answer and number of calls are those of the program.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace

from keqa.optimize.boundary.collect import EveryDraw
from keqa.programs.gates import asks
from keqa.programs.runtime.concurrency import reached
from keqa.programs.runtime.cost import Event, Ledger
from keqa.programs.runtime.session import Session
from keqa.programs.runtime.shared_samples import SharedExamination
from keqa.programs.stages.examination import Assessment


class WaveExamination(SharedExamination):
    """An examination whose draws are made once for all settings, of which it takes as many as its gate asks for."""

    async def _draw(self, session: Session, found: Assessment, count: int) -> None:
        if not count:
            return
        start = len(found.draws)
        whole = Assessment(found.quiz, found.number, found.answer_type, found.choices, found.tries, place=found.place)
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
            with Event(session.ledger, role, reached.get(), session.step_of(self.quiz)):
                pass
        await self._place(session, found, start)

    def _drawing(self) -> SharedExamination:
        """What makes all draws: with probabilities where there are any, unless the gate cannot do without."""
        gate = self.gate if asks(self.gate) == "probabilities" else EveryDraw()
        return SharedExamination(self, gate, self._draws.value)
