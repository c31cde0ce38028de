import pytest

from keqa.metrics.retrieval import SearchRates


def test_over_and_under_search():
    found = SearchRates.of([(True, True), (True, False), (True, False), (False, False), (False, True)])
    assert found == SearchRates(known=3, over_searched=1, unknown=2, under_searched=1)
    assert (found.over, found.under) == (pytest.approx(1 / 3), 0.5)


def test_where_there_is_nothing_of_a_kind():
    assert (SearchRates.of([]).over, SearchRates.of([]).under) == (None, None)
    assert (SearchRates.of([(True, False)]).over, SearchRates.of([(False, True)]).under) == (0.0, 0.0)
