import pytest

from keqa.metrics.abstention import SearchRates, Selective


def test_coverage_risk_and_credit():
    found = Selective.of([True] * 6 + [False] * 2 + [None] * 2)
    assert (found.questions, found.answered, found.right, found.coverage, found.risk) == (10, 8, 6, 0.8, 0.25)
    # Without a target silence is as good as a wrong answer; with .75 a wrong one costs three right ones.
    assert (found.credit(0), found.credit(0.75)) == (0.6, pytest.approx(0))
    found = Selective.of([None, None])
    assert (found.coverage, found.risk, found.credit(0.9)) == (0, None, 0)
    with pytest.raises(ValueError, match="at least one question"):
        Selective.of([])
    with pytest.raises(ValueError, match="the target must be from 0 to below 1, not 1"):
        Selective.of([True]).credit(1)


def test_over_and_under_search():
    found = SearchRates.of([(True, True), (True, False), (True, False), (False, False), (False, True)])
    assert found == SearchRates(known=3, unknown=2, over=pytest.approx(1 / 3), under=0.5)
    assert SearchRates.of([]) == SearchRates(0, 0, None, None)
    assert SearchRates.of([(True, False)]) == SearchRates(1, 0, 0.0, None)
    assert SearchRates.of([(False, True)]) == SearchRates(0, 1, None, 0.0)
