from fractions import Fraction

import dspy
import pytest
from dspy.evaluate import answer_passage_match
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.accuracy import accuracy, contains_answer, mastery

WORDS = st.lists(st.sampled_from(["oslo", "bergen", "new", "york"]), min_size=1, max_size=5).map(" ".join)


@pytest.mark.parametrize(
    ("prediction", "golds", "answer_type", "choices", "right"),
    [
        ("Yes.", ["yes"], "yes/no", (), 1.0),
        ("true", ["yes"], "yes/no", (), 1.0),
        ("No, they were not", ["no"], "yes/no", (), 1.0),
        ("maybe", ["no"], "yes/no", (), 0.0),
        (None, ["no"], "yes/no", (), 0.0),
        ("(B)", ["Bergen"], "choice", ("Oslo", "Bergen"), 1.0),
        ("Bergen", ["B"], "choice", ("Oslo", "Bergen"), 1.0),
        ("A", ["Bergen"], "choice", ("Oslo", "Bergen"), 0.0),
    ],
)
def test_accuracy(prediction, golds, answer_type, choices, right):
    assert accuracy(prediction, golds, answer_type, choices) == right


def test_short_answers_have_no_accuracy():
    with pytest.raises(ValueError, match="use EM or F1"):
        accuracy("Oslo", ["Oslo"], "short")


@pytest.mark.parametrize(
    ("prediction", "golds", "contains"),
    [
        ("The capital of Norway is Oslo.", ["Oslo"], True),
        ("The capital of Norway is Oslo.", ["Bergen", "Oslo"], True),
        ("Oslofjord", ["Oslo"], False),
        ("New and old York", ["New York"], False),
        ("in New York, of course", ["New York"], True),
        ("York", ["New York"], False),
        ("它是北京市。", ["北京"], True),
        ("", ["Oslo"], False),
        (None, ["Oslo"], False),
        ("whatever", ["..."], False),
    ],
)
def test_contains_answer(prediction, golds, contains):
    assert contains_answer(prediction, golds) is contains


def test_a_sentence_contains_no_option():
    assert not contains_answer("A good question, the answer is no", ["A"], "choice", ("Oslo", "Bergen"))
    assert contains_answer("(a)", ["Oslo"], "choice", ("Oslo", "Bergen"))


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3))
def test_containing_is_what_dspy_calls_a_passage_match(prediction, golds):
    match = answer_passage_match(dspy.Example(answer=golds), dspy.Prediction(context=[prediction]))
    assert contains_answer(prediction, golds) is match


@given(WORDS, WORDS, WORDS)
def test_what_stands_in_a_text_is_contained(before, answer, after):
    assert contains_answer(f"{before} {answer} {after}", [answer])
    assert contains_answer(answer, [answer])


def test_mastery_is_exact():
    assert mastery(["Oslo"] * 27 + ["Bergen", None, "unknown"], ["Oslo"]) == Fraction(9, 10)


def test_an_abstention_is_not_mastered_even_where_it_is_gold():
    assert mastery(["unknown"], ["unknown"]) == 0


def test_mastery_needs_draws_and_golds():
    with pytest.raises(ValueError, match="at least one draw"):
        mastery([], ["Oslo"])
    with pytest.raises(ValueError, match="gold"):
        mastery(["Oslo"], [])
