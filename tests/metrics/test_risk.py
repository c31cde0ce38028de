import random

import pytest
from scipy.stats import beta

from keqa.metrics.confidence import control_risk, risk_p_value


def test_at_the_bound_of_clopper_and_pearson_it_is_delta():
    # Without an error that is 1 - delta ** (1 / n).
    for wrong, answered, bound in [
        (0, 22, 1 - 0.1 ** (1 / 22)),
        (3, 30, beta.ppf(0.9, 4, 27)),
        (7, 80, beta.ppf(0.9, 8, 73)),
    ]:
        assert risk_p_value(wrong, answered, bound) == pytest.approx(0.1)
    assert risk_p_value(5, 5, 0.9) == 1.0


def test_no_answer_proves_nothing():
    assert risk_p_value(0, 0, 0.5) == 1.0
    assert control_risk([2.0], [0.5] * 99, [True] * 99, 0.1, 0.1) is None


@pytest.mark.parametrize(("wrong", "answered"), [(-1, 3), (4, 3)])
def test_counts_that_cannot_be(wrong, answered):
    with pytest.raises(ValueError, match="wrong answers must be from 0 to all of them"):
        risk_p_value(wrong, answered, 0.1)


def test_what_is_no_share():
    with pytest.raises(ValueError, match="risk must be above 0 and below 1, not 1"):
        risk_p_value(0, 1, 1)
    with pytest.raises(ValueError, match="delta must be above 0 and below 1, not 0"):
        control_risk([], [], [], 0.1, 0)
    with pytest.raises(ValueError, match="1 confidences for 2 answers"):
        control_risk([0.5], [0.5], [True, False], 0.1, 0.1)
    with pytest.raises(ValueError, match="must be numbers"):
        control_risk([float("nan")], [0.5], [True], 0.1, 0.1)


def test_the_last_threshold_before_one_that_fails():
    confidences = [0.9] * 30 + [0.6] * 30 + [0.3] * 30
    right = [True] * 60 + [False] * 30
    found = control_risk([0.9, 0.6, 0.3], confidences, right, 0.1, 0.1)
    assert (found.threshold, found.questions, found.answered, found.wrong) == (0.6, 90, 60, 0)
    assert found.coverage == pytest.approx(2 / 3)


def test_none_is_tested_behind_one_that_fails():
    # The second would hold; that it may be tested at all the first would have to hold.
    assert control_risk([0.9, 0.6], [0.9] * 10 + [0.6] * 50, [True] * 60, 0.1, 0.1) is None


def test_over_many_calibrations_the_risk_is_exceeded_no_more_often_than_delta():
    """The true risk of answering from a threshold on is known: confidence t is right with chance t."""
    draw = random.Random(0)
    grid = [0.95, 0.9, 0.85, 0.8, 0.75, 0.7]
    over = held = 0
    for _ in range(400):
        confidences = [draw.random() for _ in range(300)]
        right = [draw.random() < confidence for confidence in confidences]
        found = control_risk(grid, confidences, right, 0.15, 0.1)
        if found is not None:
            held += 1
            # From t on, confidences are uniform from t to 1.
            over += 1 - (found.threshold + 1) / 2 > 0.15 + 1e-9
    assert held > 100
    assert over / 400 <= 0.1
