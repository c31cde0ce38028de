import pytest

from keqa.evaluation.costs import Spread, searched
from keqa.programs.records import Cost, QuestionRecord, QuizRecord


def cost(retrievals=0):
    return Cost(retrievals=retrievals)


def test_spread_by_hand():
    # Of 1 … 21 the median is the 11th and the 95th percentile the 20th.
    assert Spread.of([float(n) for n in range(21, 0, -1)]) == Spread(231.0, 11.0, 11.0, 20.0)
    assert Spread.of([3]) == Spread(3.0, 3.0, 3.0, 3.0)


def test_no_questions_cost_nothing_to_speak_of():
    with pytest.raises(ValueError, match="at least one"):
        Spread.of([])


def test_which_quizzes_were_searched_for():
    known = QuizRecord(index=1, text="a", source="memory")
    looked_up = QuizRecord(index=2, text="b", source="passages", retrieved=True)
    blocked = QuizRecord(index=3, text="c #2", source="blocked")
    fallback = QuizRecord(index=0, text="q", source="passages", retrieved=True)
    records = [
        QuestionRecord(question="one", quizzes=[known, looked_up], cost=cost(1)),
        QuestionRecord(question="two", quizzes=[known], cost=cost()),
        QuestionRecord(question="three", quizzes=[known, blocked], fallback=fallback, cost=cost(1)),
        QuestionRecord(question="four", method="always_retrieve", cost=cost(1)),
        QuestionRecord(question="five", method="closed_book", cost=cost()),
    ]
    assert [searched(record) for record in records] == [[False, True], [False], [False, True], [True], [False]]
