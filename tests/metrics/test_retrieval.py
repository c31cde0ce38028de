from fractions import Fraction

import pytest

from keqa.metrics.retrieval import macro_recall_at_k, mean_overlap_at_k, recall_at_k


def test_recall_counts_distinct_gold_titles_among_the_first_k():
    assert recall_at_k(["a", "x", "b"], ["a", "b"], 2) == Fraction(1, 2)
    assert recall_at_k(["a", "x", "b"], ["a", "b"], 3) == 1
    assert recall_at_k(["a", "a"], ["a", "a", "b"], 2) == Fraction(1, 2)
    assert recall_at_k([], ["a"], 5) == 0
    assert recall_at_k(["a", "b"], ["a", "b"], 1) == Fraction(1, 2)


@pytest.mark.parametrize("k", [0, -1])
def test_at_least_one_is_looked_at(k):
    refused = pytest.raises(ValueError, match=f"^k must be at least 1, not {k}$")
    with refused:
        recall_at_k(["a"], ["a"], k)
    with refused:
        mean_overlap_at_k([["a"]], [["a"]], k)


def test_macro_recall_weighs_questions_not_titles():
    retrieved = [["a"], ["x"]]
    assert macro_recall_at_k(retrieved, [["a"], ["b", "c", "d"]], 5) == 0.5


@pytest.mark.parametrize(
    ("retrieved", "gold", "k"), [([], [], 5), ([["a"]], [[]], 5), ([["a"]], [["a"]], 0), ([["a"]], [["a"], ["b"]], 5)]
)
def test_what_has_no_recall_is_refused(retrieved, gold, k):
    with pytest.raises(ValueError, match=r"recall|k must|zip"):
        macro_recall_at_k(retrieved, gold, k)


def test_overlap_is_the_mean_share_of_what_both_found():
    assert mean_overlap_at_k([["a", "b", "c"]], [["b", "x", "a"]], 3) == pytest.approx(2 / 3)
    assert mean_overlap_at_k([["a", "b", "c"]], [["b", "x", "a"]], 2) == 0.5
    assert mean_overlap_at_k([["a", "b"]], [["a", "c"]], 1) == 1.0
    assert mean_overlap_at_k([["a", "b"]], [["a"]], 2) == 0.5
    assert mean_overlap_at_k([["a"]], [["b", "a"]], 2) == 0.5
    assert mean_overlap_at_k([[], ["a"]], [["a"], []], 2) == 0.0
    assert mean_overlap_at_k([["a"], ["a"]], [["a"], ["b"]], 10) == 0.5
    assert mean_overlap_at_k([["a", "b"], []], [["a"], []], 10) == 0.75


@pytest.mark.parametrize(("one", "other", "k"), [([], [], 5), ([["a"]], [["a"]], 0), ([["a"]], [["a"], ["b"]], 5)])
def test_what_has_no_overlap_is_refused(one, other, k):
    with pytest.raises(ValueError, match=r"overlap|k must|zip"):
        mean_overlap_at_k(one, other, k)
