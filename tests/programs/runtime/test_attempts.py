"""Which attempts follow a call that failed, and what is noted of them."""

from __future__ import annotations

import dspy
import pytest

from keqa.programs.calls.ask import attempted, searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, Session


def failure(kind: str) -> CallError:
    """An outage, or a reply that cannot be used, from a server or from this process."""
    error = CallError("LMServerError" if kind == "outage" else "AdapterParseError", kind, unusable=kind != "outage")
    error.served = kind == "served"
    error.spoilt = 3 if kind == "three" else 0
    return error


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
    session, left, made = Session(CallLimiter(1), blocking=True), list(fails), []

    async def call(attempt: int) -> dspy.Prediction:
        made.append(attempt)
        if left:
            raise failure(left.pop(0))
        return dspy.Prediction(answer="Ann")

    assert (await attempted(session, call, "plan", 2, draws=draws)).answer == "Ann"
    assert made == attempts
    assert [(one.message, one.harmless) for one in session.degradations] == notes
    assert {(one.stage, one.quiz, one.action) for one in session.degradations} <= {("plan", 2, "asked again")}


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
    session, errors, made = Session(CallLimiter(1), blocking=True), [failure(kind) for kind in fails], []

    async def call(attempt: int) -> dspy.Prediction:
        made.append(attempt)
        raise errors[len(made) - 1]

    with pytest.raises(CallError) as raised:
        await attempted(session, call, "plan", draws=draws)
    assert raised.value is errors[-1]
    assert made == attempts
    assert [(one.message, one.harmless) for one in session.degradations] == [(kind, True) for kind in fails[:-1]]


async def test_what_stands_in_is_asked_of_an_unusable_reply_before_anything_is_drawn():
    asked = []

    def stands_in(error: CallError) -> dspy.Prediction | None:
        asked.append(error.message)
        return dspy.Prediction(answer="Bo") if error.message == "here" else None

    async def call(attempt: int) -> dspy.Prediction:
        raise failure(kinds[attempt])

    session, kinds = Session(CallLimiter(1), blocking=True), ["here"]
    assert (await attempted(session, call, "answer", stands_in=stands_in)).answer == "Bo"
    assert (asked, session.degradations) == (["here"], [])
    kinds[0] = "outage"
    with pytest.raises(CallError):
        await attempted(session, call, "answer", stands_in=stands_in)
    assert asked == ["here"]


@pytest.mark.parametrize(("errors", "searches"), [([], 1), ([OSError("away")], 2), ([OSError("away")] * 2, 2)])
async def test_a_search_that_may_pass_is_made_once_more(retriever, errors, searches):
    session, found, left, asked = Session(CallLimiter(1), blocking=True), retriever("a", "b", "c"), list(errors), []
    search = found.search

    def failing(query: str, k: int = 10) -> list:
        asked.append((query, k))
        if left:
            raise left.pop(0)
        return search(query, k)

    found.search = failing
    if len(errors) == 2:
        with pytest.raises(CallError, match="away"):
            await searched(session, found, "who", 2, 5)
    else:
        assert len(await searched(session, found, "who", 2, 5)) == 2
    assert asked == [("who", 2)] * searches
    assert [
        (one.stage, one.cause, one.message, one.action, one.quiz, one.harmless) for one in session.degradations
    ] == [("retrieve", "OSError", "away", "searched again", 5, True)] * (searches - 1)


async def test_a_search_that_will_not_pass_is_made_once(retriever):
    session, found = Session(CallLimiter(1), blocking=True), retriever("a")
    found.error = ValueError("no query")
    with pytest.raises(CallError):
        await searched(session, found, "who", 2)
    assert (len(found.queries), session.degradations) == (1, [])
