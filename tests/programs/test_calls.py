"""The layer of calls: the bound, cost, waits, and errors by kind."""

from __future__ import annotations

import asyncio
import copy
from types import SimpleNamespace

import dspy
import pytest
from dspy.utils.exceptions import LMInvalidRequestError, LMServerError

from keqa.errors import ConfigurationError
from keqa.lms.adapter import adapter
from keqa.programs.calls import Bound, Branch, CallError, Session, Shared, _Listener, run_blocking, text_of, typed_error
from keqa.programs.extraction import KeySentences
from keqa.programs.ledger import Event, Ledger
from keqa.programs.records import CriticalPath, RoleCost
from keqa.retrievers.caching import Kept
from keqa.signatures import AnswerQuiz


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
    assert cost.by_role["utility"] == RoleCost(calls=1, seconds=0.25)
    assert (cost.retrievals, cost.retrieval_seconds, cost.calls) == (1, 5.0, 7)


def test_a_search_that_a_cache_answers_counts_and_takes_the_time_that_it_took_when_it_was_made():
    class Cached:
        def search(self, query, k=10):
            return Kept([], 5.0) if query == "met before" else []

    session = Session(Bound(1), blocking=True)

    async def main() -> None:
        await session.search(Cached(), "met before", 3)
        await session.search(KeySentences(Cached(), 2), "met before", 3)
        await session.search(Cached(), "new", 3)

    run_blocking(main)
    cost = session.ledger.cost()
    assert (cost.retrievals, cost.retrievals_cached) == (3, 2)
    assert all(10 <= seconds < 11 for seconds in (cost.retrieval_seconds, cost.seconds, cost.critical_path.seconds))


def test_a_call_that_never_ran_costs_nothing():
    ledger = Ledger()
    Event(ledger, "task", frozenset())
    assert (ledger.cost().by_role, ledger.critical_path().calls) == ({}, 0)


def test_what_follows_a_join_has_waited_for_all_branches(scripted):
    lm, _ = scripted(lambda name, inputs, config: {"answer": "a"})
    from keqa.signatures import AnswerQuestion

    predictor = dspy.Predict(AnswerQuestion)
    predictor.lm = lm
    session = Session(Bound(4), blocking=True)

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
        run_blocking(lambda: Session(Bound(1), blocking=True).gather([wait(), fail(), fail()]))
    assert stopped == [True]


def test_a_joined_branch_may_be_joined_again():
    async def one() -> int:
        return 1

    async def main() -> int:
        branch = Branch(one())
        return await branch.join() + await branch.join()

    assert run_blocking(main) == 2


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


def test_text_loses_a_marker_left_in():
    assert text_of(" Paris [[ ## completed ## ]]\n") == "Paris"
    assert text_of(None) == ""


def test_what_is_shared_is_never_copied():
    held = Shared([1])
    assert copy.deepcopy(held) is held


def test_the_replies_of_one_request_that_cannot_be_used_are_counted():
    whole, bare = "[[ ## answer ## ]]\na\n\n[[ ## completed ## ]]", "[[ ## answer ## ]]\na"
    replies = [(whole, "stop"), (whole, "length"), (bare, "stop"), (bare, "length"), ("a", "stop"), (None, "stop")]
    listener = _Listener()
    listener.history = [
        {
            "outputs": [text if text is None else {"text": text} for text, _ in replies],
            "response": SimpleNamespace(choices=[{"finish_reason": reason} for _, reason in replies]),
        }
    ]
    assert len(listener.replies) == 6
    with dspy.context(adapter=adapter()):
        assert listener.spoilt(AnswerQuiz) == 3
