from types import SimpleNamespace

import pytest

from keqa.metrics.abstention import Declining, SearchRates


def line(*, right=False, answered=True):
    return SimpleNamespace(answers=["x"], right=right, answered=answered, declined=not answered, unanswered=False)


RIGHT, WRONG, SILENT = line(right=True), line(), line(answered=False)


def test_coverage_risk_and_credit():
    found = Declining.of([RIGHT] * 6 + [WRONG] * 2 + [SILENT] * 2)
    assert (found.questions, found.answered, found.right, found.coverage, found.risk) == (10, 8, 6, 0.8, 0.25)
    # Without a target silence is as good as a wrong answer; with .75 a wrong one costs three right ones.
    assert (found.credit(0), found.credit(0.75)) == (0.6, pytest.approx(0))
    found = Declining.of([SILENT] * 2)
    assert (found.coverage, found.risk, found.credit(0.9)) == (0, None, 0)
    assert (Declining().coverage, Declining().risk) == (None, None)


def test_over_and_under_search():
    decisions = [(True, True), (True, False), (True, False), (False, False), (False, True)]
    assert SearchRates.of(decisions) == (3, 2, pytest.approx(1 / 3), 0.5)
    assert SearchRates.of([]) == (0, 0, None, None)
    assert SearchRates.of([(True, False)]) == (1, 0, 0.0, None)
    assert SearchRates.of([(False, True)]) == (0, 1, None, 0.0)
