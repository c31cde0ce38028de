import pytest

from keqa.metrics.utility import utility


@pytest.mark.parametrize(
    ("with_candidate", "without", "label"),
    # Rounding is no utility.
    [(1.0, 0.0, 1), (0.5, 0.25, 1), (0.5, 0.5, 0), (0.4, 0.8, -1), (0.1 + 0.2, 0.3, 0), (0.55, 0.5, 1)],
)
def test_the_three_cases_of_the_equation(with_candidate, without, label):
    assert utility(with_candidate, without) == label
