from fractions import Fraction

import pytest

from keqa.metrics.retrieval import SearchRates, macro_recall_at_k, mean_overlap_at_k, recall_at_k, share_selected


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


def test_the_share_of_what_is_needed():
    assert share_selected([1, 4], [4, 7]) == Fraction(1, 2)
    assert share_selected([1, 4, 7], {4, 7}) == 1
    assert share_selected([1], []) is None


def test_over_and_under_search():
    found = SearchRates.of([(True, True), (True, False), (True, False), (False, False), (False, True)])
    assert found == SearchRates(known=3, over_searched=1, unknown=2, under_searched=1)
    assert (found.over, found.under) == (pytest.approx(1 / 3), 0.5)


def test_where_there_is_nothing_of_a_kind():
    assert (SearchRates.of([]).over, SearchRates.of([]).under) == (None, None)
    assert (SearchRates.of([(True, False)]).over, SearchRates.of([(False, True)]).under) == (0.0, 0.0)
