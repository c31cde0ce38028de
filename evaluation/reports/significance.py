"""Whether a difference between two rows is more than chance: on the questions of both, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from keqa.evaluation.reports.measures import quality, right
from keqa.evaluation.reports.rows import Entry, Group
from keqa.evaluation.reports.summary import QuestionSummary
from keqa.metrics.significance import Interval, mcnemar, paired_bootstrap, paired_t_test

__all__ = ["Lead", "lead_of", "t_test_p_value"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Lead:
    """How far one method is ahead of another on the same questions.

    Attributes:
        f1: The mean difference in F1 with its paired bootstrap interval.
        t_test: p-value of the paired t-test on F1, the paper's test.
        mcnemar: p-value of McNemar's test on exact match.
    """

    f1: Interval
    t_test: float
    mcnemar: float


def lead_of(one: Entry, other: Entry) -> Lead | None:
    """Compare two rows.

    Args:
        one: The row that may be ahead.
        other: The one it is compared with.

    Returns:
        The lead over all questions that both were asked; None where there are fewer than two.
    """
    ours, theirs = _paired(one, other, quality)
    if len(ours) < 2:
        return None
    exact = mcnemar(*_paired(one, other, right))
    return Lead(paired_bootstrap(ours, theirs), paired_t_test(ours, theirs), exact)


def t_test_p_value(one: Entry, other: Entry, group: Group, score: str) -> float | None:
    """p-value of the paired t-test on one score of one group; None where fewer than two questions are shared."""
    ours, theirs = _paired(one, other, lambda line: line.scores.get(score, 0.0), group)
    return paired_t_test(ours, theirs) if len(ours) > 1 else None


def _paired(
    one: Entry, other: Entry, of: Callable[[QuestionSummary], _T], group: Group | None = None
) -> tuple[list[_T], list[_T]]:
    both = [line for line in one.lines if line in other.lines and (group is None or line in group.questions)]
    return [of(one.lines[line]) for line in both], [of(other.lines[line]) for line in both]
