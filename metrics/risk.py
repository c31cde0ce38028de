"""A bound on how often given answers are wrong, that holds for any distribution and any number of questions.

Learn-then-Test (Angelopoulos et al., 2021): each threshold is a hypothesis, "of the answers whose confidence reaches it
more than the risk are wrong", which a binomial test on calibration questions rejects or does not. The thresholds are
tested in an order that was fixed before, from the first on, and the last one that is rejected is taken: so that the
chance to take one that does not hold is at most delta, however many are tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Controlled:
    """A threshold that holds a risk.

    Attributes:
        threshold: Confidences from this on are answered.
        questions: How many it was tested on.
        answered: How many of them reach it.
        wrong: How many of those were wrong.
    """

    threshold: float
    questions: int
    answered: int
    wrong: int

    @property
    def coverage(self) -> float:
        """The share that is answered."""
        return self.answered / self.questions


def risk_p_value(wrong: int, answered: int, risk: float) -> float:
    """How probable it is to see so few wrong answers where more than the risk are wrong.

    Args:
        wrong: Wrong answers.
        answered: All answers.
        risk: The share that may be wrong.

    Returns:
        P(Bin(answered, risk) <= wrong), the exact binomial test; 1 without an answer.

    Raises:
        ValueError: The counts or the risk are out of range.
    """
    from scipy.stats import binom

    if not 0 <= wrong <= answered:
        raise ValueError(f"wrong answers must be from 0 to all of them, not {wrong} of {answered}")
    _check_share("risk", risk)
    return float(binom.cdf(wrong, answered, risk)) if answered else 1.0


def control_risk(
    thresholds: Sequence[float], confidences: Sequence[float], right: Sequence[bool], risk: float, delta: float
) -> Controlled | None:
    """The last of a sequence of thresholds at which the risk is held, with a chance of delta at most that it is not.

    Args:
        thresholds: In the order in which they are tested, from the most promising on. They must not come from the
            questions that they are tested on.
        confidences: Of the calibration questions.
        right: Whether the answer to each is right, in the same order.
        risk: The share of the answers that may be wrong.
        delta: The chance that the threshold does not hold the risk.

    Returns:
        None where the first threshold does not hold it.

    Raises:
        ValueError: The questions differ in number, a confidence is no number, or the risk or delta is out of range.
    """
    if len(confidences) != len(right):
        raise ValueError(f"{len(confidences)} confidences for {len(right)} answers")
    if any(map(math.isnan, [*thresholds, *confidences])):
        raise ValueError("thresholds and confidences must be numbers")
    _check_share("delta", delta)
    held = None
    for threshold in thresholds:
        reached = [one for confidence, one in zip(confidences, right, strict=True) if confidence >= threshold]
        wrong = len(reached) - sum(reached)
        if risk_p_value(wrong, len(reached), risk) > delta:
            break
        held = Controlled(threshold, len(right), len(reached), wrong)
    return held


def _check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1, not {value}")
