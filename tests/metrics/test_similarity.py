import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.samples import SIMILARITIES, bert_score, lexical_similarity, rouge_l, token_f1

TEXTS = st.lists(st.sampled_from(["june", "ten", "1982", "or", "9"]), max_size=6).map(" ".join)
FORMS = st.sampled_from(sorted(SIMILARITIES))


def test_rouge_l_by_hand():
    # "june 10 1982" and "june 1982" share "june 1982" in order: 2·2 / (3 + 2).
    assert rouge_l("June 10, 1982", "June 1982") == 0.8
    # In the other order only one word is common in order: 2·1 / (2 + 2); as bags both are.
    assert rouge_l("Scott Derrickson", "Derrickson Scott") == 0.5
    assert token_f1("Scott Derrickson", "Derrickson Scott") == 1.0
    # The textbook pair, with x for a: 4 of 7 and 6 words, such as b c b x.
    assert rouge_l("x b c b d x b", "b d c x b x") == pytest.approx(2 * 4 / 13)


def test_nothing_resembles_an_empty_answer():
    assert (rouge_l("", ""), rouge_l("", "Oslo"), token_f1("", "")) == (0.0, 0.0, 0.0)


def test_the_mean_is_over_pairs():
    # Oslo-Oslo 1, Oslo-Oslo city 2/3 twice.
    assert lexical_similarity(["Oslo", "oslo.", "Oslo city"]) == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)


def test_an_abstention_resembles_nothing():
    assert lexical_similarity(["Oslo", "Oslo", None]) == pytest.approx(1 / 3)
    assert lexical_similarity([None, None]) == 0.0


def test_a_single_draw():
    assert (lexical_similarity(["Oslo"]), lexical_similarity([None])) == (1.0, 0.0)


def test_options_are_the_same_by_letter_and_text():
    assert lexical_similarity(["A", "Oslo"], "rouge_l", "choice", ("Oslo", "Bergen")) == 1.0
    assert lexical_similarity(["A", "B"], "token_f1", "choice", ("Oslo", "Bergen")) == 0.0
    assert lexical_similarity(["A", "Oslo"], "token_f1", "choice", ("Oslo", "Bergen")) == 1.0
    assert lexical_similarity(["A", "B"], "rouge_l", "choice", ("Oslo city", "Oslo town")) == 0.5


@pytest.mark.parametrize("form", sorted(SIMILARITIES))
def test_a_verdict_is_the_same_however_it_is_said(form):
    assert lexical_similarity(["Yes, it is", "true"], form, "yes/no") == 1.0
    assert lexical_similarity(["yes", "no"], form, "yes/no") == 0.0
    assert lexical_similarity(["Yes, it is", "true"], form) == 0.0


def test_rouge_l_is_the_default():
    assert lexical_similarity(["Scott Derrickson", "Derrickson Scott"]) == 0.5
    assert lexical_similarity(["Scott Derrickson", "Derrickson Scott"], "token_f1") == 1.0


def test_no_draws():
    with pytest.raises(ValueError, match="at least one sample"):
        lexical_similarity([])


@given(TEXTS, TEXTS, FORMS)
def test_similarity_is_symmetric_and_1_for_equals_only(first, second, form):
    alike = SIMILARITIES[form]
    assert alike(first, second, "short", ()) == alike(second, first, "short", ())
    assert 0 <= alike(first, second, "short", ()) <= 1
    assert alike(first, first, "short", ()) == float(bool(first))


@given(TEXTS, TEXTS)
def test_order_costs_nothing_but_likeness(first, second):
    assert rouge_l(first, second) <= token_f1(first, second)


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=5), FORMS)
def test_the_order_of_draws_does_not_matter(answers, form):
    assert lexical_similarity(answers, form) == pytest.approx(lexical_similarity(answers[::-1], form))


def rows(*angles):
    return np.array([[np.cos(angle), np.sin(angle)] for angle in angles]).reshape(-1, 2)


def test_bert_score_by_hand():
    # The greedy matches of x = (0, 90 degrees) in y = (0, 60): 1 and cos 30; of y in x: 1 and cos 30.
    assert bert_score(rows(0, np.pi / 2), rows(0, np.pi / 3)) == pytest.approx((1 + np.cos(np.pi / 6)) / 2)
    # Of x = (0, 60) in y = (0): 1 and cos 60, so P = .75; of y in x 1. F = 2 * .75 / 1.75.
    assert bert_score(rows(0, np.pi / 3), rows(0)) == pytest.approx(1.5 / 1.75)


def test_nothing_is_alike_where_there_are_no_tokens_or_opposite_ones():
    assert (bert_score(rows(), rows(0)), bert_score(rows(0), rows(np.pi))) == (0.0, 0.0)


@pytest.mark.slow
@given(st.lists(st.floats(0, 6), max_size=4), st.lists(st.floats(0, 6), max_size=4))
def test_bert_score_has_no_order_and_is_at_most_1(first, second):
    score = bert_score(rows(*first), rows(*second))
    assert score == pytest.approx(bert_score(rows(*second), rows(*first)))
    assert 0 <= score <= 1 + 1e-9
    assert not first or bert_score(rows(*first), rows(*first)) == pytest.approx(1)


def test_long_answers_are_compared_in_bits():
    words = [str(number % 50) for number in range(20_000)]
    assert rouge_l(" ".join(words), " ".join(words)) == 1.0
    assert 0 < rouge_l(" ".join(words), " ".join(reversed(words))) < 1
