import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from keqa.metrics.confidence import aurc, prediction_rejection_ratio, risk_coverage

ANSWERS = st.lists(
    st.tuples(st.integers(0, 3).map(lambda third: third / 3), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=6
)


def split(pairs):
    return [score for score, _ in pairs], [quality for _, quality in pairs]


def test_the_curve_by_hand():
    curve = risk_coverage([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1])
    # Most certain first: right, wrong, right, wrong.
    assert curve.coverage == (0.25, 0.5, 0.75, 1.0)
    assert curve.risk == pytest.approx((0, 1 / 2, 1 / 3, 2 / 4))
    assert curve.area == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert aurc([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1]) == curve.area


def test_ties_are_taken_in_expectation():
    # One right and one wrong of equal score: whichever comes first, half a loss is expected.
    assert risk_coverage([0.5, 0.5], [1, 0]).risk == (0.5, 0.5)


def test_prr_by_hand():
    # Ideal: right, right, wrong, wrong: risks 0, 0, 1/3, 1/2, area 5/24. Chance 1/2. The score: area 8/24.
    assert prediction_rejection_ratio([0.9, 0.2, 0.6, 0.4], [1, 0, 0, 1]) == pytest.approx((12 - 8) / (12 - 5))


def test_prr_of_ideal_and_of_constant_scores():
    assert prediction_rejection_ratio([0.8, 0.4, 0.6], [1.0, 0.0, 0.5]) == pytest.approx(1)
    assert prediction_rejection_ratio([0.8, 0.8, 0.8], [1.0, 0.0, 0.5]) == pytest.approx(0)
    assert prediction_rejection_ratio([0.4, 0.8], [1, 0]) == pytest.approx(-1)


def test_equally_good_answers_have_no_prr():
    with pytest.raises(ValueError, match=r"differ in quality; all have 1\.0"):
        prediction_rejection_ratio([0.1, 0.2], [1.0, 1.0])


@pytest.mark.parametrize(
    ("scores", "quality", "message"),
    [
        ([], [], "at least one"),
        ([0.1], [1, 0], "one length, not 1 and 2"),
        ([float("nan")], [1], "must be numbers"),
        ([0.5], [1.5], "from 0 to 1"),
        ([0.5], [float("nan")], "from 0 to 1"),
    ],
)
def test_what_has_no_curve(scores, quality, message):
    with pytest.raises(ValueError, match=message):
        risk_coverage(scores, quality)


@given(ANSWERS)
def test_the_area_is_the_mean_over_all_orders_that_the_scores_allow(pairs):
    areas = []
    for order in itertools.permutations(pairs):
        if all(one[0] >= other[0] for one, other in itertools.pairwise(order)):
            risks = [sum(1 - quality for _, quality in order[:k]) / k for k in range(1, len(order) + 1)]
            areas.append(sum(risks) / len(risks))
    assert aurc(*split(pairs)) == pytest.approx(sum(areas) / len(areas))


@given(ANSWERS, st.randoms())
def test_the_order_of_the_list_does_not_matter(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    assert aurc(*split(shuffled)) == pytest.approx(aurc(*split(pairs)))


@pytest.mark.slow
@given(ANSWERS)
def test_no_score_beats_the_ideal_order(pairs):
    scores, quality = split(pairs)
    assume(min(quality) < max(quality))
    assert prediction_rejection_ratio(scores, quality) <= 1 + 1e-9
    assert prediction_rejection_ratio(quality, quality) == pytest.approx(1)
