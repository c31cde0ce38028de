import pytest

from keqa.metrics.answers import f1
from keqa.metrics.utility import utility


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
