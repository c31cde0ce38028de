"""Logistic regressions on shares of successes, and Platt's calibration of what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from keqa.programs.boundary.light import Regression, Signal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FOLDS = 5


def logistic(features: Array, target: Array, weight: Array, penalties: Array) -> Array:
    """Weights of a logistic regression on shares of successes, as a binomial."""
    import numpy as np
    from scipy.optimize import minimize

    def loss(weights: Array) -> tuple[float, Array]:
        scores = features @ weights
        gradient = features.T @ (weight * (sigmoid(scores) - target)) + penalties * weights
        return log_loss(scores, target, weight) + float(penalties @ weights**2) / 2, gradient

    found: Array = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B").x
    return found


def cross_validated(
    signals: Array,
    words: Array,
    target: Array,
    weight: Array,
    fold: NDArray[np.int64],
    *,
    tried: Iterable[float],
    signals_penalty: float,
) -> tuple[Array, Array]:
    """The regression on signals and words whose penalty on words serves best on the folds that are held out."""
    import numpy as np

    features = np.hstack([signals, words, np.ones((len(target), 1))])

    def solved(penalty: float, rows: Any) -> Array:
        penalties = np.r_[np.full(signals.shape[1], signals_penalty), np.full(words.shape[1], penalty), 1e-6]
        return logistic(features[rows], target[rows], weight[rows], penalties)

    scores = {penalty: np.zeros(len(target)) for penalty in tried}
    for penalty, said in scores.items():
        for one in range(FOLDS):
            said[fold == one] = features[fold == one] @ solved(penalty, fold != one)
    best = min(scores, key=lambda one: log_loss(scores[one], target, weight))
    return solved(best, slice(None)), scores[best]


def platt(scores: Array, target: Array, weight: Array, rows: Any) -> tuple[float, float]:
    """Slope and offset with which scores say how probable something is (Platt, 1999)."""
    import numpy as np

    pairs = np.column_stack([scores[rows], np.ones(int(np.count_nonzero(rows)))])
    # A little of the penalty keeps few and well divided items from a slope without end.
    found = logistic(pairs, target[rows], weight[rows], np.array([0.01, 1e-6]))
    return max(float(found[0]), 0.0), float(found[1])


def log_loss(scores: Array, target: Array, weight: Array) -> float:
    """The weighted sum of the cross entropies of scores, which are log odds."""
    import numpy as np

    return float(weight @ (np.logaddexp(0, scores) - target * scores))


def sigmoid(scores: Array) -> Array:
    """The probabilities that log odds stand for."""
    from scipy.special import expit

    found: Array = expit(scores)
    return found


def regression_of(
    weights: Array, names: Sequence[str], mean: Array, scale: Array, slope: float, offset: float
) -> Regression:
    """A regression as it is kept; six digits of a weight are all that it can be relied on for."""

    def rounded(value: Any) -> float:
        return float(f"{float(value):.6g}")

    return Regression(
        bias=rounded(weights[-1]),
        signals={
            name: Signal(mean=rounded(mean[one]), scale=rounded(scale[one]), weight=rounded(weights[one]))
            for one, name in enumerate(names)
        },
        words=[rounded(one) for one in weights[len(names) : -1]],
        slope=rounded(slope),
        offset=rounded(offset),
    )
