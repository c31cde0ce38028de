import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.confidence import Bin, brier, expected_calibration_error, reliability

ANSWERS = st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=30)


def test_ece_by_hand():
    # (.8, 1], three answers: confidence .9, accuracy 2/3; (.4, .6], one answer: confidence .5, accuracy 0.
    confidences, right = [0.85, 0.9, 0.95, 0.5], [1, 0, 1, 0]
    assert expected_calibration_error(confidences, right, bins=5) == pytest.approx((3 * (0.9 - 2 / 3) + 0.5) / 4)


def test_the_diagram_leaves_out_empty_bins():
    found = reliability([0.0, 0.1, 1.0], [0, 1, 1])
    assert found == [
        Bin(0.0, 0.1, 2, pytest.approx(0.05), 0.5),
        Bin(0.9, 1.0, 1, 1.0, 1.0),
    ]


def test_ten_bins_are_the_default():
    confidences, right = [0.05, 0.15, 0.95, 1.0], [0, 1, 1, 0]
    assert reliability(confidences, right) == reliability(confidences, right, 10) != reliability(confidences, right, 11)
    gaps = 0.05 + 0.85 + 2 * 0.475
    assert expected_calibration_error(confidences, right) == pytest.approx(gaps / 4)
    assert expected_calibration_error([0.05, 0.15], [0, 1], 1) == pytest.approx(0.4)


def test_borders_belong_to_the_bin_below():
    assert [(one.low, one.count) for one in reliability([0.1 + 0.2, 0.3, 0.31], [1, 1, 1])] == [(0.2, 2), (0.3, 1)]


def test_calibrated_and_surely_wrong():
    assert expected_calibration_error([0.8] * 5, [1, 1, 1, 1, 0]) == pytest.approx(0)
    assert expected_calibration_error([1.0, 1.0], [0, 0]) == 1.0


@pytest.mark.parametrize(
    ("confidences", "quality", "bins"),
    [([], [], 10), ([0.5], [1, 0], 10), ([1.5], [1], 10), ([0.5], [2], 10), ([float("nan")], [1], 10), ([0.5], [1], 0)],
)
def test_what_cannot_be_calibrated(confidences, quality, bins):
    with pytest.raises(ValueError, match=r"calibration|one length|from 0 to 1"):
        reliability(confidences, quality, bins)


@given(ANSWERS, st.integers(1, 20))
def test_every_answer_is_in_the_bin_that_holds_it(pairs, bins):
    confidences, quality = [c for c, _ in pairs], [q for _, q in pairs]
    found = reliability(confidences, quality, bins)
    assert sum(one.count for one in found) == len(pairs)
    assert all(one.low - 1e-9 <= one.confidence <= one.high + 1e-9 for one in found)
    assert 0 <= expected_calibration_error(confidences, quality, bins) <= 1


@given(ANSWERS)
def test_one_bin_compares_the_means(pairs):
    confidences, quality = [c for c, _ in pairs], [q for _, q in pairs]
    gap = abs(sum(confidences) - sum(quality)) / len(pairs)
    assert expected_calibration_error(confidences, quality, 1) == pytest.approx(gap)


def test_brier():
    assert brier([1.0, 0.0, 0.5], [1.0, 1.0, 0.0]) == pytest.approx((0 + 1 + 0.25) / 3)
    with pytest.raises(ValueError, match="at least one"):
        brier([], [])
