"""How a call is made, counted, bounded and made again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.lm15 import ServerError

from keqa.errors import ConfigurationError
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.ask import ask, given_lm_of_role, lm_of_role, search, searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import (
    CallLimiter,
    CallMeter,
    Session,
    context,
    current,
    gather,
    run_blocking,
    within,
)
from keqa.programs.program import UnansweredError
from keqa.programs.records import CallCost, Cost
from keqa.retrievers.caching import KeptHits


def session() -> Session:
    return Session(CallLimiter(1), blocking=True)


def failure(kind: str) -> CallError:
    """An outage, or a reply that cannot be used, from a server or from this process."""
    error = CallError("LMServerError" if kind == "outage" else "AdapterParseError", kind, unusable=kind != "outage")
    error.served = kind == "served"
    error.spoilt = 3 if kind == "three" else 0
    error.reply = "[[ ## answer ## ]]\nBo\n" if kind == "line" else None
    return error


class Calls:
    """Stands in for language models: fails as told, then answers."""

    def __init__(self, *fails: str) -> None:
        self.errors, self.made = [failure(kind) for kind in fails], []
        self.session = session()

    async def __call__(self, predictor: Any, *, attempt: int, usable: Callable[[Any], object] | None, **inputs: Any):
        self.made.append(attempt)
        if len(self.made) <= len(self.errors):
            raise self.errors[len(self.made) - 1]
        return dspy.Prediction(answer="Ann")

    async def ask(self, **arguments: Any) -> dspy.Prediction:
        with within(caller=self):
            return await self.session.run(ask(None, "plan", 2, **arguments))


@pytest.mark.parametrize(
    ("fails", "draws", "attempts", "notes"),
    [
        ([], 1, [0], []),
        (["outage"], 1, [0, 0], [("outage", True)]),
        # A server may reply otherwise to the same request, and nothing came out otherwise.
        (["served"], 1, [0, 0], [("served", True)]),
        (["served", "outage"], 1, [0, 0, 0], [("served", True), ("outage", True)]),
        # What had to be drawn is not what it would have been.
        (["here"], 1, [0, 1], [("here", False)]),
        (["served", "served"], 1, [0, 0, 1], [("served", False), ("served", False)]),
        (["here", "outage"], 1, [0, 1, 1], [("here", False), ("outage", True)]),
        (["here", "served"], 2, [0, 1, 2], [("here", False), ("served", False)]),
        (["three"], 1, [0, 1], [("three", False)] * 3),
    ],
)
async def test_another_attempt_that_succeeds(fails, draws, attempts, notes):
    calls = Calls(*fails)
    assert (await calls.ask(draws=draws)).answer == "Ann"
    assert calls.made == attempts
    noted = calls.session.degradations
    assert [(one.message, one.harmless) for one in noted] == notes
    assert {(one.stage, one.quiz, one.action) for one in noted} <= {("plan", 2, "asked again")}


@pytest.mark.parametrize(
    ("fails", "draws", "attempts"),
    [
        (["outage", "outage"], 1, [0, 0]),
        (["here"], 0, [0]),
        (["here", "here"], 1, [0, 1]),
        (["served", "served"], 0, [0, 0]),
        (["served", "served", "served"], 1, [0, 0, 1]),
        (["here", "outage", "outage"], 1, [0, 1, 1]),
        (["here"] * 5, 4, [0, 1, 2, 3, 4]),
    ],
)
async def test_the_last_failure_is_left_to_the_caller(fails, draws, attempts):
    calls = Calls(*fails)
    with pytest.raises(CallError) as raised:
        await calls.ask(draws=draws)
    assert (raised.value, calls.made) == (calls.errors[-1], attempts)
    assert [(one.message, one.harmless) for one in calls.session.degradations] == [(kind, True) for kind in fails[:-1]]


async def test_the_first_line_of_an_answer_is_taken_before_anything_is_drawn():
    calls = Calls("line")
    assert (await calls.ask(for_answer=True)).answer == "Bo"
    assert calls.made == [0]
    (note,) = calls.session.degradations
    assert (note.stage, note.quiz, note.action) == ("plan", 2, "took the first line of the answer")
    with pytest.raises(CallError):
        await Calls("line").ask(draws=0)


def test_a_circle_is_ended_by_drawing(scripted):
    asked: list[tuple[float, int | None]] = []

    def model(name, inputs, config):
        asked.append((config.temperature, config.seed))
        return {"answer": "Oslo"} if len(asked) == 3 else "[[ ## answer ## ]]\n[]\n\n[]\n"

    lm, engine = scripted(model)
    engine.finish_reason = "length"
    with dspy.context(lm=lm):
        record = ClosedBook()("Where?").record
    assert (record.answer, record.cost.samples) == ("Oslo", 3)
    assert [(one.stage, one.cause, one.action) for one in record.degradations] == [
        ("answer", "TruncatedReplyError", "asked again"),
        ("answer", "TruncatedReplyError", "asked again"),
    ]
    assert asked == [(0.0, None), (0.7, 1), (0.7, 2)]


@pytest.mark.parametrize(("reply", "calls"), [("[]", 5), ("", 5), (ServerError("down"), 2)])
def test_in_the_end_the_question_fails(scripted, reply, calls):
    def model(name, inputs, config):
        if isinstance(reply, Exception):
            raise reply
        return reply

    lm, engine = scripted(model)
    with dspy.context(lm=lm), pytest.raises(UnansweredError, match="answer failed"):
        ClosedBook()("Where?")
    assert engine.count == {"AnswerQuestion": calls}


@pytest.mark.parametrize(("errors", "searches"), [([], 1), ([OSError("away")], 2), ([OSError("away")] * 2, 2)])
async def test_a_search_that_may_pass_is_made_once_more(retriever, errors, searches):
    own, found, left, asked = session(), retriever("a", "b", "c"), list(errors), []
    finds = found.search

    def failing(query: str, k: int = 10) -> list:
        asked.append((query, k))
        if left:
            raise left.pop(0)
        return finds(query, k)

    found.search = failing
    if len(errors) == 2:
        with pytest.raises(CallError, match="away"):
            await own.run(searched(found, "who", 2, 5))
    else:
        assert len(await own.run(searched(found, "who", 2, 5))) == 2
    assert asked == [("who", 2)] * searches
    assert [(one.stage, one.cause, one.message, one.action, one.quiz, one.harmless) for one in own.degradations] == [
        ("retrieve", "OSError", "away", "searched again", 5, True)
    ] * (searches - 1)


def test_a_search_that_a_cache_answers_counts_and_takes_the_time_that_it_took_when_it_was_made():
    class Cached:
        def search(self, query, k=10):
            return KeptHits([], 5.0) if query == "met before" else []

    own = session()
    for query in ("met before", "met before", "new"):
        run_blocking(lambda query=query: own.run(search(Cached(), query, 3)))
    cost = own.cost()
    assert (cost.retrievals, cost.retrievals_cached) == (3, 2)
    assert all(10 <= seconds < 11 for seconds in (cost.retrieval_seconds, cost.seconds))


def test_calls_are_counted_by_role_and_by_step_once_they_run():
    own = session()
    with within(session=own):
        CallMeter(None)
        assert own.cost().by_role == {}
        for step, seconds in (("quiz", 1.0), ("quiz", 0.5), ("", 2.0)):
            with (meter := CallMeter(None, "task", step)):
                meter.calls = 1
            meter.seconds = seconds
    cost = own.cost()
    assert cost.by_step == {"quiz": CallCost(calls=2, samples=2, seconds=1.5)}
    assert cost.by_role["task"].seconds == 3.5
    assert Cost.model_validate_json('{"by_role": {"task": {"calls": 1}}}').by_step == {}


async def test_a_program_that_a_question_asks_gives_its_place_back(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"answer": "Ann"})
    inner, outer = ClosedBook(), Session(CallLimiter(1), blocking=False, lms={"task": "task"})
    outer.lms = type("Lms", (), {"task": "task", "boundary": "boundary"})
    inner.set_lm(lm)

    async def asks() -> None:
        await inner.acall("Who governs Oslo?")
        assert current() is outer
        assert given_lm_of_role("boundary") == "boundary"

    await outer.run(asks())
    assert outer.cost().calls == 0
    assert context().session is None
    with dspy.context(lm=lm):
        assert (lm_of_role("boundary"), given_lm_of_role("boundary")) == (lm, None)


def test_one_failing_task_stops_the_others():
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
        run_blocking(lambda: gather([wait(), fail(), fail()]))
    assert stopped == [True]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_calls_in_threads_of_its_own():
    limiter = CallLimiter(1)

    def called() -> int:
        return run_blocking(lambda: limiter.in_thread(os.getpid))

    assert called() == os.getpid()
    child = multiprocessing.get_context("fork").Process(target=called)
    child.start()
    child.join(60)
    ended = child.exitcode
    child.kill()
    assert ended == 0
