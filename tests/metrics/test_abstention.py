from types import SimpleNamespace

import pytest

from keqa.metrics.abstention import Declining, SearchRates


def lines(**counts):
    """So many lines of each kind; all but the silent ones are answered."""
    said = {name: SimpleNamespace(answers=["x"], unanswered=False) for name in ("right", "wrong", "silent")}
    for name, line in said.items():
        line.right, line.answered, line.declined = name == "right", name != "silent", name == "silent"
    return [said[name] for name, count in counts.items() for _ in range(count)]


def test_coverage_risk_and_credit():
    found = Declining.of(lines(right=6, wrong=2, silent=2))
    assert (found.questions, found.answered, found.right, found.coverage, found.risk) == (10, 8, 6, 0.8, 0.25)
    # Without a target silence is as good as a wrong answer; with .75 a wrong one costs three right ones.
    assert (found.credit(0), found.credit(0.75)) == (0.6, pytest.approx(0))
    found = Declining.of(lines(silent=2))
    assert (found.coverage, found.risk, found.credit(0.9)) == (0, None, 0)
    assert (Declining().coverage, Declining().risk) == (None, None)


@pytest.mark.parametrize(
    ("decisions", "rates"),
    [
        (
            [(True, True), (True, False), (True, False), (False, False), (False, True)],
            (3, 2, pytest.approx(1 / 3), 0.5),
        ),
        ([], (0, 0, None, None)),
        ([(True, False)], (1, 0, 0.0, None)),
        ([(False, True)], (0, 1, None, 0.0)),
    ],
)
def test_over_and_under_search(decisions, rates):
    assert SearchRates.of(decisions) == rates
