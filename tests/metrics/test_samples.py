"""Certainty in its three forms, and how much sampled answers resemble each other."""

import math

import numpy as np
import pytest

from keqa.metrics.samples import (
    CERTAINTIES,
    SIMILARITIES,
    answer_type_sizes,
    bert_score,
    lexical_similarity,
    rouge_l,
)

H = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))


@pytest.mark.parametrize(
    ("form", "four_to_one", "all_different"),
    [
        ("by_types", 1 - H / math.log(2), 0.0),
        ("plain", 1 - H, 1 - math.log(5)),
        ("by_samples", 1 - H / math.log(5), 0.0),
    ],
)
def test_certainty(form, four_to_one, all_different):
    certainty = CERTAINTIES[form]
    assert certainty([4, 1]) == pytest.approx(four_to_one)
    assert certainty([1] * 5) == pytest.approx(all_different)
    assert certainty([30]) == certainty([1]) == 1.0
    for sizes in ([], [3, 0]):
        with pytest.raises(ValueError, match="at least one"):
            certainty(sizes)
    # Only by types it is forgotten how many groups there are.
    assert (certainty([15, 15]) > certainty([2] * 15) + 0.1) is (form != "by_types")


@pytest.mark.parametrize("sizes", [[1] * 5, [1] * 12, [1] * 13, [1] * 57, [3] * 13, [3] * 57])
def test_rounding_takes_none_below_0(sizes):
    assert CERTAINTIES["by_types"](sizes) >= 0
    assert CERTAINTIES["by_samples"](sizes) >= 0


def test_exact_answer_types():
    assert answer_type_sizes(["Oslo", "oslo.", "Bergen", "the Oslo"]) == [3, 1]
    assert answer_type_sizes(["A", "(a)", "B"], "choice") == [2, 1]
    assert answer_type_sizes(["A", "Oslo", "B"], "choice", ("Oslo", "Bergen")) == [2, 1]
    assert answer_type_sizes(["yes", "True", "no"], "yes/no") == [2, 1]


def test_rouge_l_by_hand():
    # "june 10 1982" and "june 1982" share "june 1982" in order: 2·2 / (3 + 2).
    assert rouge_l("June 10, 1982", "June 1982") == 0.8
    # In the other order only one word is common in order: 2·1 / (2 + 2); as bags both are.
    assert rouge_l("Scott Derrickson", "Derrickson Scott") == 0.5
    # The textbook pair, with x for a: 4 of 7 and 6 words, such as b c b x.
    assert rouge_l("x b c b d x b", "b d c x b x") == pytest.approx(2 * 4 / 13)
    assert (rouge_l("", ""), rouge_l("", "Oslo")) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("answers", "more", "similar"),
    [
        # The mean is over pairs: Oslo-Oslo 1, Oslo-Oslo city 2/3 twice; an abstention resembles nothing.
        (["Oslo", "oslo.", "Oslo city"], (), (1 + 2 / 3 + 2 / 3) / 3),
        (["Oslo", "Oslo", None], (), 1 / 3),
        ([None, None], (), 0.0),
        (["Oslo"], (), 1.0),
        ([None], (), 0.0),
        (["Scott Derrickson", "Derrickson Scott"], (), 0.5),
        (["Scott Derrickson", "Derrickson Scott"], ("token_f1",), 1.0),
        (["A", "Oslo"], ("rouge_l", "choice", ("Oslo", "Bergen")), 1.0),
        (["A", "Oslo"], ("token_f1", "choice", ("Oslo", "Bergen")), 1.0),
        (["A", "B"], ("token_f1", "choice", ("Oslo", "Bergen")), 0.0),
        (["A", "B"], ("rouge_l", "choice", ("Oslo city", "Oslo town")), 0.5),
        *((["Yes, it is", "true"], (form, "yes/no"), 1.0) for form in SIMILARITIES),
        *((["yes", "no"], (form, "yes/no"), 0.0) for form in SIMILARITIES),
        *((["Yes, it is", "true"], (form,), 0.0) for form in SIMILARITIES),
    ],
)
def test_lexical_similarity(answers, more, similar):
    assert lexical_similarity(answers, *more) == pytest.approx(similar)
    with pytest.raises(ValueError, match="at least one sample"):
        lexical_similarity([], *more)


def rows(*angles):
    return np.array([[np.cos(angle), np.sin(angle)] for angle in angles]).reshape(-1, 2)


def test_bert_score_by_hand():
    # The greedy matches of x = (0, 90 degrees) in y = (0, 60): 1 and cos 30; of y in x: 1 and cos 30.
    assert bert_score(rows(0, np.pi / 2), rows(0, np.pi / 3)) == pytest.approx((1 + np.cos(np.pi / 6)) / 2)
    # Of x = (0, 60) in y = (0): 1 and cos 60, so P = .75; of y in x 1. F = 2 * .75 / 1.75.
    assert bert_score(rows(0, np.pi / 3), rows(0)) == pytest.approx(1.5 / 1.75)
    # Nothing is alike where there are no tokens, or opposite ones.
    unlike = [(rows(), rows(0)), (rows(0), rows(np.pi)), (np.eye(2)[:1], np.eye(2)[1:])]
    assert [bert_score(*pair) for pair in unlike] == [0.0] * 3


def test_long_answers_are_compared_in_bits():
    words = [str(number % 50) for number in range(10_000)]
    assert rouge_l(" ".join(words), " ".join(words)) == 1.0
    assert 0 < rouge_l(" ".join(words), " ".join(reversed(words))) < 1
