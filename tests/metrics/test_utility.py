import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.answers import f1
from keqa.metrics.utility import gain, utility

SCORES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("with_candidate", "without", "label"),
    # Rounding is no utility.
    [(1.0, 0.0, 1), (0.5, 0.25, 1), (0.5, 0.5, 0), (0.4, 0.8, -1), (0.1 + 0.2, 0.3, 0), (0.55, 0.5, 1)],
)
def test_the_three_cases_of_the_equation(with_candidate, without, label):
    assert utility(with_candidate, without) == label


def test_the_paper_example():
    # Figure 2: the first passage turns a right answer wrong, the second makes it right.
    golds = ("Maurice Koechlin",)
    without = f1("Maurice Guy", golds)
    assert without == 0.5
    assert utility(f1("Gustave Eiffel", golds), without) == -1
    assert utility(f1("Maurice Koechlin", golds), without) == 1


@given(SCORES, SCORES)
def test_the_label_is_the_sign_of_the_gain(first, second):
    label, difference = utility(first, second), gain(first, second)
    assert label * difference >= 0
    assert (label == 0) == (abs(difference) <= 1e-9)
    assert (gain(second, first), utility(second, first)) == (-difference, -label)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_refused(bad):
    for asked in (lambda: utility(bad, 0.0), lambda: gain(0.0, bad)):
        with pytest.raises(ValueError, match="finite"):
            asked()
