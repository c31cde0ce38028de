"""How sure a difference between two methods is, from one score a question for each, in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NOTHING = 1e-12
_RESAMPLES_AT_ONCE = 500
_SCORES_AT_ONCE = 1_000_000
"""Together they bound the memory that resampling takes, whatever the number of questions; the draws are the same."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval, which holds the true value in 95 of 100 cases."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval lies on one side of zero: a significant difference."""
        return self.low > 0 or self.high < 0


def bootstrap_mean(scores: Sequence[float], *, resamples: int = 10_000) -> Interval:
    """The mean of scores with a percentile bootstrap interval over questions, the same each time."""
    import numpy as np
    from scipy.stats import bootstrap

    values = _checked(scores)
    interval = bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        confidence_level=0.95,
        method="percentile",
        batch=max(1, min(_RESAMPLES_AT_ONCE, _SCORES_AT_ONCE // values.size)),
        rng=np.random.default_rng(0),
    ).confidence_interval
    # A bound that is 0 on paper is none beside it, which would be shown as -.000, or make a difference significant.
    low, high = (float(end) if abs(end) > _NOTHING else 0.0 for end in (interval.low, interval.high))
    return Interval(float(values.mean()), low, high)


def paired_bootstrap(a: Sequence[float], b: Sequence[float], *, resamples: int = 10_000) -> Interval:
    """The mean of ``a - b`` with an interval, over questions, each with both of its scores."""
    return bootstrap_mean(_differences(a, b), resamples=resamples)


def paired_t_test(a: Sequence[float], b: Sequence[float]) -> float:
    """The two-sided p-value of a paired t-test; where all pairs differ alike, of the sign test."""
    from scipy.stats import ttest_1samp

    differences = _checked(_differences(a, b))
    # Without spread, but for rounding, the statistic is 0/0 or infinite, and scipy warns instead of answering.
    if float(differences.max() - differences.min()) < 1e-9:
        return 1.0 if abs(float(differences[0])) < 1e-9 else 0.5 ** (differences.size - 1)
    return float(ttest_1samp(differences, 0.0).pvalue)


def mcnemar(a: Sequence[bool], b: Sequence[bool]) -> float:
    """The two-sided p-value of McNemar's exact test, over questions that one method alone has right, 1 without any."""
    from scipy.stats import binomtest

    differences = _differences(a, b)
    won, lost = differences.count(1.0), differences.count(-1.0)
    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def _differences(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [float(x) - float(y) for x, y in zip(a, b, strict=True)]


def _checked(scores: Sequence[float]) -> NDArray[np.float64]:
    import numpy as np

    values = np.asarray(scores, dtype=float)
    if values.size < 2 or not np.isfinite(values).all():
        raise ValueError("at least two scores are needed, all of them finite numbers")
    return values
