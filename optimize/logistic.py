"""Logistic regressions on shares of successes, and Platt's calibration of what they say."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit

from keqa.programs.boundary.light import Regression, Signal

Array = NDArray[np.float64]

FOLDS = 5


class Fit:
    """The regression on signals and words whose penalty on words serves best on the folds that are held out.

    What `scores` says of each item comes from a regression that was fitted to the other folds.
    """

    def __init__(
        self,
        signals: Sequence[Mapping[str, float]],
        words: Array | sparse.csr_array,
        target: Array,
        weight: Array,
        fold: NDArray[np.int64],
        *,
        tried: Iterable[float],
        signals_penalty: float,
        least_scale: float,
    ) -> None:
        self.target, self.weight, self.names = target, weight, list(signals[0])
        raw = np.array([[one[name] for name in self.names] for one in signals]).reshape(len(signals), len(self.names))
        self.mean = np.average(raw, axis=0, weights=weight)
        spread = np.sqrt(np.average((raw - self.mean) ** 2, axis=0, weights=weight))
        self.scale = np.maximum(spread, least_scale)
        parts = [(raw - self.mean) / self.scale, words, np.ones((len(target), 1))]
        features: Any = sparse.hstack(parts, format="csr") if sparse.issparse(words) else np.hstack(parts)

        def solved(penalty: float, rows: Any) -> Array:
            penalties = np.r_[np.full(raw.shape[1], signals_penalty), np.full(words.shape[1], penalty), 1e-6]
            return logistic(features[rows], target[rows], weight[rows], penalties)

        scores = {penalty: np.zeros(len(target)) for penalty in tried}
        for penalty, score in scores.items():
            for one in range(FOLDS):
                score[fold == one] = features[fold == one] @ solved(penalty, fold != one)
        best = min(scores, key=lambda one: log_loss(scores[one], target, weight))
        self.weights, self.scores = solved(best, slice(None)), scores[best]

    def platt(self, rows: Any = slice(None), least_slope: float = 0.0) -> tuple[float, float]:
        """Slope and offset with which scores say how probable something is (Platt, 1999)."""
        pairs = np.column_stack([self.scores[rows], np.ones_like(self.scores[rows])])
        # A little of the penalty keeps few and well divided items from a slope without end. Where scores rank worse
        # than chance, the offset has to go with the least slope: it alone then says how probable things are.
        bounds = [(least_slope, None), (None, None)]
        slope, offset = logistic(pairs, self.target[rows], self.weight[rows], np.array([0.01, 1e-6]), bounds)
        return float(slope), float(offset)

    def calibrated(self, least_slope: float = 0.0) -> tuple[Regression, Array]:
        """The regression, and how probable those of the other folds find each item."""
        slope, offset = self.platt(least_slope=least_slope)
        return self._kept(slope, offset), expit(slope * self.scores + offset)

    def _kept(self, slope: float, offset: float) -> Regression:
        """The regression as it is kept; six digits of a weight are all that it can be relied on for."""

        def rounded(value: Any) -> float:
            return float(f"{float(value):.6g}")

        signals = {
            name: Signal(mean=rounded(mean), scale=rounded(scale), weight=rounded(weight))
            for name, mean, scale, weight in zip(self.names, self.mean, self.scale, self.weights, strict=False)
        }
        words = [rounded(one) for one in self.weights[len(self.names) : -1]]
        how = {"slope": rounded(slope), "offset": rounded(offset)}
        return Regression(bias=rounded(self.weights[-1]), signals=signals, words=words, **how)


def logistic(features: Any, target: Array, weight: Array, penalties: Array, bounds: Any = None) -> Array:
    """Weights of a logistic regression on shares of successes, as a binomial, each within its bounds."""

    def loss(weights: Array) -> tuple[float, Array]:
        scores = features @ weights
        gradient = features.T @ (weight * (expit(scores) - target)) + penalties * weights
        return log_loss(scores, target, weight) + float(penalties @ weights**2) / 2, gradient

    found: Array = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    return found


def log_loss(scores: Array, target: Array, weight: Array) -> float:
    """The weighted sum of the cross entropies of scores, which are log odds."""
    return float(weight @ (np.logaddexp(0, scores) - target * scores))
