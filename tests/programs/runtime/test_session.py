"""The layer of calls: cost and waits."""

from __future__ import annotations

import asyncio

import dspy
import pytest

from keqa.errors import ConfigurationError
from keqa.programs.calls.cost import Event, Ledger
from keqa.programs.calls.replies import text_of
from keqa.programs.calls.session import CallLimiter, Session, run_blocking
from keqa.programs.records import CallCost, Cost, CriticalPath
from keqa.retrievers.caching import Kept


def finished(ledger: Ledger, role: str, after: set[int], seconds: float) -> int:
    with (event := Event(ledger, role, frozenset(after))):
        event.calls = 1
    event.seconds = seconds
    return event.number


def test_the_critical_path_is_the_longest_chain_of_waits():
    ledger = Ledger()
    start = finished(ledger, "task", set(), 1.0)
    sides = {finished(ledger, "task", {start}, 0.5) for _ in range(4)}
    slow = finished(ledger, "retrieval", {start}, 5.0)
    end = finished(ledger, "task", sides, 1.0)
    finished(ledger, "utility", {end}, 0.25)
    assert slow == 5
    assert ledger.critical_path() == CriticalPath(calls=4, seconds=6.0)
    cost = ledger.cost()
    assert cost.by_role["utility"] == CallCost(calls=1, seconds=0.25)
    assert (cost.retrievals, cost.retrieval_seconds, cost.calls) == (1, 5.0, 7)


def test_a_search_that_a_cache_answers_counts_and_takes_the_time_that_it_took_when_it_was_made():
    class Cached:
        def search(self, query, k=10):
            return Kept([], 5.0) if query == "met before" else []

    session = Session(CallLimiter(1), blocking=True)

    async def main() -> None:
        await session.search(Cached(), "met before", 3)
        await session.search(Cached(), "met before", 3)
        await session.search(Cached(), "new", 3)

    run_blocking(main)
    cost = session.ledger.cost()
    assert (cost.retrievals, cost.retrievals_cached) == (3, 2)
    assert all(10 <= seconds < 11 for seconds in (cost.retrieval_seconds, cost.seconds, cost.critical_path.seconds))


def test_a_call_that_never_ran_costs_nothing():
    ledger = Ledger()
    Event(ledger, "task", frozenset())
    assert (ledger.cost().by_role, ledger.critical_path().calls) == ({}, 0)


def test_calls_of_unnamed_predictors_are_counted_by_role_only():
    ledger = Ledger()
    for step, seconds in (("quiz", 1.0), ("quiz", 0.5), ("", 2.0)):
        with (event := Event(ledger, "task", frozenset(), step)):
            event.calls = 1
        event.seconds = seconds
    cost = ledger.cost()
    assert cost.by_step == {"quiz": CallCost(calls=2, samples=2, seconds=1.5)}
    assert cost.by_role["task"].seconds == 3.5
    assert Cost.model_validate_json('{"by_role": {"task": {"calls": 1}}}').by_step == {}


def test_what_follows_a_join_has_waited_for_all_branches(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"answer": "a"})
    from keqa.signatures import AnswerQuestion

    predictor = dspy.Predict(AnswerQuestion)
    predictor.lm = lm
    session = Session(CallLimiter(4), blocking=True)

    async def ask(times: int) -> None:
        for _ in range(times):
            await session.predict(predictor, "task", question="q", answer_type="short", choices=[])

    async def main() -> None:
        await ask(1)
        await session.gather([ask(1), ask(3), ask(2)])
        await ask(1)

    run_blocking(main)
    assert session.ledger.critical_path().calls == 5
    assert session.ledger.cost().calls == 8


def test_one_failing_branch_stops_the_others():
    stopped = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ConfigurationError("no key")

    with pytest.raises(ConfigurationError, match="no key"):
        run_blocking(lambda: Session(CallLimiter(1), blocking=True).gather([wait(), fail(), fail()]))
    assert stopped == [True]


def test_text_loses_a_marker_left_in():
    assert text_of(" Paris [[ ## completed ## ]]\n") == "Paris"
    assert text_of(None) == ""
