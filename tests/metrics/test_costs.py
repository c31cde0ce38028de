from fractions import Fraction

import pytest

from keqa.metrics.costs import Spread, question_retrieval_ratio, quiz_retrieval_ratio, summarize_costs
from keqa.programs.records import Cost, QuestionRecord, QuizRecord, RoleCost


def cost(seconds=1.0, retrievals=0, **roles):
    return Cost(by_role=roles, retrievals=retrievals, seconds=seconds)


def test_spread_by_hand():
    # Of 1 … 21 the median is the 11th and the 95th percentile the 20th.
    assert Spread.of([float(n) for n in range(21, 0, -1)]) == Spread(231.0, 11.0, 11.0, 20.0)
    assert Spread.of([3]) == Spread(3.0, 3.0, 3.0, 3.0)


def test_costs_by_kind_and_role():
    task = RoleCost(calls=4, cached=1, prompt_tokens=100, completion_tokens=10)
    judge = RoleCost(calls=2, prompt_tokens=50, completion_tokens=2)
    found = summarize_costs([cost(1.0, 0, task=task), cost(3.0, 2, task=task, utility=judge), cost(2.0, 1)])
    assert found.questions == 3
    assert (found.requests.total, found.calls.total) == (12, 10)
    assert found.calls_by_role["task"] == Spread(8.0, pytest.approx(8 / 3), 4.0, 4.0)
    assert found.requests_by_role["task"].p50 == 5
    # The first and the last question did not ask the judge.
    assert found.requests_by_role["utility"] == Spread(2.0, pytest.approx(2 / 3), 0.0, pytest.approx(1.8))
    assert list(found.calls_by_role) == ["task", "utility"]
    assert (found.prompt_tokens.total, found.completion_tokens.total) == (250, 22)
    assert (found.retrievals.mean, found.seconds.p50) == (1.0, 2.0)


def test_no_questions_cost_nothing_to_speak_of():
    for summary in (summarize_costs, question_retrieval_ratio, quiz_retrieval_ratio, Spread.of):
        with pytest.raises(ValueError, match="at least one"):
            summary([])


def test_retrieval_ratios():
    known = QuizRecord(index=1, text="a", source="memory")
    searched = QuizRecord(index=2, text="b", source="passages", retrieved=True)
    blocked = QuizRecord(index=3, text="c #2", source="blocked")
    fallback = QuizRecord(index=0, text="q", source="passages", retrieved=True)
    records = [
        QuestionRecord(question="one", quizzes=[known, searched], cost=cost(retrievals=1)),
        QuestionRecord(question="two", quizzes=[known], cost=cost()),
        QuestionRecord(question="three", quizzes=[known, blocked], fallback=fallback, cost=cost(retrievals=1)),
        QuestionRecord(question="four", method="always_retrieve", cost=cost(retrievals=1)),
        QuestionRecord(question="five", method="closed_book", cost=cost()),
    ]
    assert question_retrieval_ratio(records) == Fraction(3, 5)
    # Quizzes: known, searched; known; known, the fallback; one; one.
    assert quiz_retrieval_ratio(iter(records)) == Fraction(3, 7)
