"""Whose question calls are counted with."""

from __future__ import annotations

import dspy

from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.ask import answering, given_lm_of_role, lm_of_role, running
from keqa.programs.calls.session import CallLimiter, Session


class Lms:
    task, boundary = "task", "boundary"


class Nothing:
    def search(self, query, k=10):
        return []


async def test_a_program_that_a_question_asks_gives_its_place_back(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"answer": "Ann"})
    inner = ClosedBook()
    inner.set_lm(lm)
    session = Session(CallLimiter(1), blocking=False)
    with answering(session, Lms):
        await inner.acall("Who governs Oslo?")
        assert running.get().session is session
        assert given_lm_of_role("boundary") == "boundary"
        # What is asked next has waited for none of the calls that are counted with the other question.
        await session.search(Nothing(), "Who governs Oslo?", 3)
    assert session.ledger.cost().critical_path.calls == 1
    await inner.acall("Who governs Oslo?")
    assert running.get() is None
    with dspy.context(lm=lm):
        assert (lm_of_role("boundary"), given_lm_of_role("boundary")) == (lm, None)
