"""Whether a score ranks answers, means what it says, and holds a risk."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from keqa.metrics.confidence import (
    Bin,
    aurc,
    auroc,
    brier,
    control_risk,
    expected_calibration_error,
    prediction_rejection_ratio,
    reliability,
    risk_coverage,
    risk_p_value,
)

NAN = float("nan")
TENTHS = st.lists(st.integers(0, 10).map(lambda tenth: tenth / 10), min_size=1, max_size=20)


@given(TENTHS, TENTHS)
def test_auroc_is_the_share_of_pairs_in_order(known, unknown):
    pairs = [(k > u) + 0.5 * (k == u) for k in known for u in unknown]
    assert auroc(known, unknown) == pytest.approx(sum(pairs) / len(pairs))
    assert auroc(known, unknown) == pytest.approx(1 - auroc(unknown, known))


OF_ANSWERS = (risk_coverage, reliability, brier)


@pytest.mark.parametrize(
    ("measure", "scores", "quality"),
    [
        (auroc, [], [0.1, 0.2]),
        (auroc, [0.1], []),
        (auroc, [NAN], [0.5]),
        (risk_coverage, [NAN], [1]),
        (prediction_rejection_ratio, [0.1, 0.2], [1.0, 1.0]),
        *((of, [], []) for of in OF_ANSWERS),
        *((of, [0.5], [1, 0]) for of in OF_ANSWERS),
        *((of, [0.5], [1.5]) for of in OF_ANSWERS),
        *((of, [0.5], [NAN]) for of in OF_ANSWERS),
        *((of, [1.5], [1]) for of in OF_ANSWERS[1:]),
        *((of, [NAN], [1]) for of in OF_ANSWERS[1:]),
        (lambda *given: control_risk([0.5], *given, 0.1, 0.1), [0.5], [True, False]),
    ],
)
def test_what_cannot_be_measured(measure, scores, quality):
    with pytest.raises(ValueError):  # noqa: PT011
        measure(scores, quality)


def test_the_curve_by_hand():
    curve = risk_coverage([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1])
    # Most certain first: right, wrong, right, wrong.
    assert curve.coverage == (0.25, 0.5, 0.75, 1.0)
    assert curve.risk == pytest.approx((0, 1 / 2, 1 / 3, 2 / 4))
    assert aurc([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1]) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    # One right and one wrong of equal score: whichever comes first, half a loss is expected.
    assert risk_coverage([0.5, 0.5], [1, 0]).risk == (0.5, 0.5)


def test_prr_by_hand():
    # Ideal: right, right, wrong, wrong: risks 0, 0, 1/3, 1/2, area 5/24. Chance 1/2. The score: area 8/24.
    assert prediction_rejection_ratio([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1]) == pytest.approx((12 - 8) / (12 - 5))
    # Ideal, constant and inverse scores.
    assert prediction_rejection_ratio([0.8, 0.4, 0.6], [1.0, 0.0, 0.5]) == pytest.approx(1)
    assert prediction_rejection_ratio([0.8, 0.8, 0.8], [1.0, 0.0, 0.5]) == pytest.approx(0)
    assert prediction_rejection_ratio([0.4, 0.8], [1, 0]) == pytest.approx(-1)


def test_ece_by_hand():
    # (.8, 1], three answers: confidence .9, accuracy 2/3; (.4, .6], one answer: confidence .5, accuracy 0.
    confidences, right = [0.85, 0.9, 0.95, 0.5], [1, 0, 1, 0]
    assert expected_calibration_error(confidences, right, bins=5) == pytest.approx((3 * (0.9 - 2 / 3) + 0.5) / 4)


def test_the_diagram():
    # Empty bins are left out; ten are the default.
    assert reliability([0.0, 0.1, 1.0], [0, 1, 1]) == [Bin(2, pytest.approx(0.05), 0.5), Bin(1, 1.0, 1.0)]
    confidences, right = [0.05, 0.15, 0.95, 1.0], [0, 1, 1, 0]
    assert [one.count for one in reliability([0.05, 0.095], [0, 1])] == [2]
    assert [one.count for one in reliability([0.05, 0.095], [0, 1], 11)] == [1, 1]
    gaps = 0.05 + 0.85 + 2 * 0.475
    assert expected_calibration_error(confidences, right) == pytest.approx(gaps / 4)
    assert expected_calibration_error([0.05, 0.15], [0, 1], 1) == pytest.approx(0.4)
    # Borders belong to the bin below.
    assert [one.count for one in reliability([0.1 + 0.2, 0.3, 0.31], [1, 1, 1])] == [2, 1]


def test_brier():
    assert brier([1.0, 0.0, 0.5], [1.0, 1.0, 0.0]) == pytest.approx((0 + 1 + 0.25) / 3)


def test_at_the_bound_of_clopper_and_pearson_it_is_delta():
    # Without an error that is 1 - delta ** (1 / n).
    for wrong, answered, bound in [
        (0, 22, 1 - 0.1 ** (1 / 22)),
        (3, 30, beta.ppf(0.9, 4, 27)),
        (7, 80, beta.ppf(0.9, 8, 73)),
    ]:
        assert risk_p_value(wrong, answered, bound) == pytest.approx(0.1)
    assert risk_p_value(5, 5, 0.9) == 1.0
    # No answer proves nothing.
    assert risk_p_value(0, 0, 0.5) == 1.0
    assert control_risk([2.0], [0.5] * 99, [True] * 99, 0.1, 0.1) is None


def test_the_last_threshold_before_one_that_fails():
    confidences = [0.9] * 30 + [0.6] * 30 + [0.3] * 30
    right = [True] * 60 + [False] * 30
    found = control_risk([0.9, 0.6, 0.3], confidences, right, 0.1, 0.1)
    assert (found.threshold, found.questions, found.answered, found.wrong) == (0.6, 90, 60, 0)
    assert found.coverage == pytest.approx(2 / 3)
    # None is tested behind one that fails: the second would hold, and for that the first would have to.
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
