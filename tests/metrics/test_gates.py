import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.metrics.confidence import auroc

TENTHS = st.lists(st.integers(0, 10).map(lambda tenth: tenth / 10), min_size=1, max_size=20)


def test_separated_scores():
    assert auroc([0.8, 1.0], [0.2, 0.4]) == 1.0
    assert auroc([0.2, 0.4], [0.8, 1.0]) == 0.0


def test_ties_count_half():
    assert auroc([0.6], [0.6]) == 0.5
    # Pairs: 1.0>0.6, 1.0>0.2, 0.6=0.6, 0.6>0.2: 3.5 of 4.
    assert auroc([1.0, 0.6], [0.6, 0.2]) == 0.875


def test_both_kinds_are_needed():
    with pytest.raises(ValueError, match="0 known and 2 unknown"):
        auroc([], [0.1, 0.2])
    with pytest.raises(ValueError, match="1 known and 0 unknown"):
        auroc([0.1], [])


def test_scores_must_be_numbers():
    with pytest.raises(ValueError, match="must be numbers"):
        auroc([float("nan")], [0.5])


@given(TENTHS, TENTHS)
def test_it_is_the_share_of_pairs_in_order(known, unknown):
    pairs = [(k > u) + 0.5 * (k == u) for k in known for u in unknown]
    assert auroc(known, unknown) == pytest.approx(sum(pairs) / len(pairs))
    assert auroc(known, unknown) == pytest.approx(1 - auroc(unknown, known))
