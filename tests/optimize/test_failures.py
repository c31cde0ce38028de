"""Failures that are counted, and those that end a step."""

from __future__ import annotations

import pytest

from keqa.errors import StageError, TooManyFailuresError
from keqa.optimize.failures import Failed, Failures, passing_cause
from keqa.programs.records import Degradation, Failure, QuestionRecord

DOWN = "LMServerError"


def record(failed=None, degraded=(), harmless=False):
    failure = None if failed is None else Failure(stage="answer", cause=failed, message="why")
    degradations = [
        Degradation(stage="retrieve", cause=one, message="where", action="left out", harmless=harmless)
        for one in degraded
    ]
    return QuestionRecord(question="Who?", failure=failure, degradations=degradations)


@pytest.mark.parametrize(
    ("found", "error", "cause"),
    [
        (None, None, None),
        (record(), None, None),
        (record(DOWN), None, f"{DOWN}: why"),
        (record("LMInvalidRequestError"), None, None),
        (record(degraded=["LMInvalidRequestError", "RetrievalError"]), None, "RetrievalError: where"),
        (record("LMInvalidRequestError", [DOWN]), None, f"{DOWN}: where"),
        (record(DOWN, ["RetrievalError"]), None, f"{DOWN}: why"),
        # What another attempt mended.
        (record(degraded=[DOWN], harmless=True), None, None),
        (None, StageError("answer", DOWN, "down"), f"{DOWN}: down"),
        (None, StageError("answer", "LMInvalidRequestError", "no"), None),
        (None, ValueError("no"), None),
        (record(DOWN), ValueError("no"), f"{DOWN}: why"),
    ],
)
def test_what_may_fare_better_next_time(found, error, cause):
    assert passing_cause(found, error) == cause


@pytest.mark.parametrize(
    ("total", "asking", "bad", "ends"),
    [
        # More than half of a step, or of what is asked of it now where that is more than two.
        (4, None, 2, False),
        (4, None, 3, True),
        (1, None, 1, True),
        (10, 4, 2, False),
        (10, 4, 3, True),
        (10, 3, 2, False),
        (10, 2, 2, False),
        # So many in succession where its length is not known.
        (None, None, 7, False),
        (None, None, 8, True),
    ],
)
def test_most_failures_of_a_step_end_it(total, asking, bad, ends):
    watch = Failures().watch("asking", total, asking)
    given = list(range(bad + 2))
    taken = []
    for item in watch.until(given):
        taken.append(item)
        if item < bad:
            watch.count(DOWN, f"{DOWN}: down")
    assert taken == (given[:bad] if ends else given)
    if ends:
        asked = total if asking is None else asking
        told = rf"^asking: {bad} of {bad if total is None else asked} questions could not .*\({DOWN}: down\)\. "
        with pytest.raises(TooManyFailuresError, match=told):
            watch.refuse()
    else:
        watch.refuse()


def test_what_may_not_pass_and_what_was_before_end_nothing():
    failures = Failures()
    watch = failures.watch("asking", 4)
    for _ in range(4):
        watch.count("LMInvalidRequestError")
        watch.count(DOWN, f"{DOWN}: down", earlier=True)
    watch.refuse()
    assert failures.found == [Failed("asking", 4, 8, "LMInvalidRequestError")]


def test_an_answer_between_failures_begins_the_count_anew():
    watch = Failures().watch("asking")
    for _ in range(3):
        for _ in range(7):
            watch.outcome(DOWN, "down")
        watch.outcome(None)
    for _ in range(7):
        watch.outcome(DOWN, "down")
    with pytest.raises(TooManyFailuresError, match=r"^asking: 29 of 32 questions"):
        watch.outcome(DOWN, "down")
