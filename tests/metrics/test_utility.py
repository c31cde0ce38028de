import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness, gain, utility

SCORES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("with_candidate", "without", "label"),
    [(1.0, 0.0, 1), (0.5, 0.25, 1), (0.5, 0.5, 0), (0.0, 0.0, 0), (0.4, 0.8, -1), (0.0, 1.0, -1)],
)
def test_the_three_cases_of_the_equation(with_candidate, without, label):
    assert utility(with_candidate, without) == label


def test_rounding_is_no_utility():
    assert (0.1 + 0.2) - 0.3 > 0
    assert utility(0.1 + 0.2, 0.3) == 0


def test_a_wider_tolerance_asks_for_a_larger_gain():
    assert utility(0.55, 0.5) == 1
    assert utility(0.55, 0.5, tolerance=0.1) == 0
    assert utility(0.2, 0.5, tolerance=0.1) == -1


def test_the_paper_example():
    # Figure 2: the first passage turns a right answer wrong, the second makes it right.
    cor: Correctness = f1
    golds = ("Maurice Koechlin",)
    without = cor("Maurice Guy", golds, "short", ())
    assert without == 0.5
    assert utility(cor("Gustave Eiffel", golds, "short", ()), without) == -1
    assert utility(cor("Maurice Koechlin", golds, "short", ()), without) == 1


def test_aliases_count_by_the_best_match():
    golds = ("United States of America", "USA")
    assert gain(f1("USA", golds), f1(None, golds)) == 1.0


@given(SCORES, SCORES)
def test_the_label_is_the_sign_of_the_gain(with_candidate, without):
    label, difference = utility(with_candidate, without), gain(with_candidate, without)
    assert label * difference >= 0
    assert (label == 0) == (abs(difference) <= 1e-9)


@given(SCORES, SCORES)
def test_what_one_adds_the_other_takes(first, second):
    assert gain(first, second) == -gain(second, first)
    assert utility(first, second) == -utility(second, first)


@given(SCORES, SCORES, SCORES)
def test_more_correct_is_never_of_less_utility(lower, higher, without):
    lower, higher = sorted((lower, higher))
    assert utility(lower, without) <= utility(higher, without)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match="finite"):
        utility(bad, 0.0)
    with pytest.raises(ValueError, match="finite"):
        gain(0.0, bad)


def test_a_negative_tolerance_is_refused():
    with pytest.raises(ValueError, match="tolerance"):
        utility(1.0, 0.0, tolerance=-0.1)
    with pytest.raises(ValueError, match="tolerance"):
        utility(1.0, 0.0, tolerance=float("nan"))
