import pytest

from keqa.metrics.abstention import Selective


def test_coverage_risk_and_credit():
    found = Selective.of([True] * 6 + [False] * 2 + [None] * 2)
    assert (found.questions, found.answered, found.right) == (10, 8, 6)
    assert (found.coverage, found.risk) == (0.8, 0.25)
    # Without a target silence is as good as a wrong answer; with .75 a wrong one costs three right ones.
    assert found.credit(0) == 0.6
    assert found.credit(0.75) == pytest.approx(0)


def test_a_method_that_never_answers():
    found = Selective.of([None, None])
    assert (found.coverage, found.risk, found.credit(0.9)) == (0, None, 0)


def test_what_cannot_be_scored():
    with pytest.raises(ValueError, match="at least one question"):
        Selective.of([])
    with pytest.raises(ValueError, match="the target must be from 0 to below 1, not 1"):
        Selective.of([True]).credit(1)
