from fractions import Fraction

import pytest

from keqa.evaluation.costs import Spread, question_retrieval_ratio, quiz_retrieval_ratio
from keqa.programs.records import Cost, QuestionRecord, QuizRecord


def cost(retrievals=0):
    return Cost(retrievals=retrievals)


def test_spread_by_hand():
    # Of 1 … 21 the median is the 11th and the 95th percentile the 20th.
    assert Spread.of([float(n) for n in range(21, 0, -1)]) == Spread(231.0, 11.0, 11.0, 20.0)
    assert Spread.of([3]) == Spread(3.0, 3.0, 3.0, 3.0)


def test_no_questions_cost_nothing_to_speak_of():
    for summary in (question_retrieval_ratio, quiz_retrieval_ratio, Spread.of):
        with pytest.raises(ValueError, match="at least one"):
            summary([])


def test_retrieval_ratios():
    known = QuizRecord(index=1, text="a", source="memory")
    searched = QuizRecord(index=2, text="b", source="passages", retrieved=True)
    blocked = QuizRecord(index=3, text="c #2", source="blocked")
    fallback = QuizRecord(index=0, text="q", source="passages", retrieved=True)
    records = [
        QuestionRecord(question="one", quizzes=[known, searched], cost=cost(1)),
        QuestionRecord(question="two", quizzes=[known], cost=cost()),
        QuestionRecord(question="three", quizzes=[known, blocked], fallback=fallback, cost=cost(1)),
        QuestionRecord(question="four", method="always_retrieve", cost=cost(1)),
        QuestionRecord(question="five", method="closed_book", cost=cost()),
    ]
    assert question_retrieval_ratio(records) == Fraction(3, 5)
    # Quizzes: known, searched; known; known, the fallback; one; one.
    assert quiz_retrieval_ratio(iter(records)) == Fraction(3, 7)
