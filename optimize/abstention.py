"""From questions with known answers to a threshold that holds a risk.

On two fifths of the questions, by their ids, a `Confidence` is learned and the order is fixed in which thresholds are
tested; on the others they are tested (`keqa.metrics.confidence`), so that the bound is exact whatever was learned.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keqa.errors import ConfigurationError, InputError
from keqa.metrics.confidence import Controlled, control_risk, risk_p_value
from keqa.optimize.logistic import FOLDS, Array, Fit
from keqa.programs.abstention import EMBEDDER, Abstention, Confidence, abstained, record_signals, words_of
from keqa.programs.records import QuestionRecord
from keqa.programs.reference.embedding import open_built_in

_LEARNED = 0.4
_PENALTIES = (0.1, 0.3, 1.0, 3.0)
_SIGNALS_PENALTY = 10.0
_STEPS = 20
_FEWEST = 40
_TRIED = tuple(step / 100 for step in range(1, 100))


class UnheldRiskError(ConfigurationError):
    """No threshold holds the risk that was asked for; the lowest that one holds, where there is one."""

    def __init__(self, message: str, lowest: float | None = None) -> None:
        super().__init__(message)
        self.lowest = lowest


@dataclass(frozen=True)
class CalibrationAnswer:
    """A question that was answered, and whether rightly."""

    id: str
    record: QuestionRecord
    right: bool


@dataclass(frozen=True)
class Held:
    """A risk that is held."""

    abstention: Abstention
    controlled: Controlled

    def __str__(self) -> str:
        found, held = self.controlled, self.abstention
        return (
            f'expects to say "I do not know" to {1 - found.coverage:.0%} of the questions, as to '
            f"{found.questions - found.answered} of {found.questions} that it was calibrated on; of the "
            f"{found.answered} others {found.wrong} were wrong. With a chance of {1 - held.delta:.0%} at most "
            f"{held.risk:.0%} of its answers to such questions are wrong"
        )


def calibrate(outcomes: Sequence[CalibrationAnswer], risk: float, delta: float = 0.1, seed: int = 0) -> Held:
    """Find what a program has to withhold so that no more than a share of its answers is wrong."""
    for name, value in (("risk", risk), ("delta", delta)):
        if not 0 < value < 1:
            raise InputError(f"{name} must be above 0 and below 1, not {value}")
    found = {one.id: one for one in outcomes}
    if len(found) < _FEWEST:
        raise InputError(
            f"{len(found)} answered questions are too few to calibrate on: {_FEWEST} at least, some hundred to be "
            "allowed to answer often"
        )
    order = sorted(found.values(), key=lambda one: _digest(f"{seed} {one.id}"))
    first = round(len(order) * _LEARNED)
    learned, tested = order[:first], order[first:]
    confidence, held_out = _learn(learned)
    confidences = [confidence.of(one.record) for one in tested]
    right = [one.right for one in tested]

    def controlled(share: float) -> Controlled | None:
        return control_risk(_order(held_out, learned, share), confidences, right, share, delta)

    best = controlled(risk)
    if best is None:
        lowest = next((share for share in _TRIED if share > risk and controlled(share) is not None), None)
        held = "no risk is held by it" if lowest is None else f"the lowest risk that it holds on these is {lowest:.2f}"
        raise UnheldRiskError(
            f"no threshold holds a risk of {risk:g} with a chance of {1 - delta:g}: of {len(tested)} calibration "
            f"questions {right.count(False)} were answered wrong, and {held}. Calibrate on more questions, or allow "
            "a higher --risk",
            lowest,
        )
    name = _digest(" ".join([str(seed), *(f"{one.id} {one.right}" for one in order)]))[:20]
    return Held(Abstention(confidence, best.threshold, risk, delta, name), best)


def _order(confidences: Array, learned: Sequence[CalibrationAnswer], risk: float) -> list[float]:
    """The thresholds to test: from the one that looked best on what was learned from, on to ever lower ones."""
    # An answer of confidence 0 says that it does not know; it is never given.
    positive = confidences[confidences > 0]
    if not len(positive):
        return []
    levels = np.quantile(positive, np.linspace(1, 0, _STEPS + 1)[1:])
    thresholds = list(dict.fromkeys(float(one) for one in levels))
    right = np.array([one.right for one in learned])

    def doubt(threshold: float) -> float:
        reached = right[confidences >= threshold]
        return risk_p_value(int(len(reached) - reached.sum()), len(reached), risk)

    first = min(range(len(thresholds)), key=lambda place: doubt(thresholds[place]))
    return thresholds[first:]


def _learn(learned: Sequence[CalibrationAnswer]) -> tuple[Confidence, Array]:
    """The confidence learned from all of them, and for each what one learned from others says."""
    values, answered = [record_signals(one.record) for one in learned], [not abstained(one.record) for one in learned]
    words = np.asarray(open_built_in(EMBEDDER).embed([words_of(one.record) for one in learned]), np.float64)
    target, weight = np.array([float(one.right) for one in learned]), np.ones(len(learned))
    how: dict[str, Any] = {"tried": _PENALTIES, "signals_penalty": _SIGNALS_PENALTY, "least_scale": 1e-2}
    fit = Fit(values, words, target, weight, np.arange(len(learned)) % FOLDS, **how)
    # A slope of 0 would make all alike: what ranks no better than chance still has an order.
    regression, confidences = fit.calibrated(least_slope=0.05)
    return Confidence(regression), np.array(answered) * confidences


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
