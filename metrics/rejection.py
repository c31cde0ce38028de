"""What is gained by answering only where a score is high: risk against coverage, and the prediction rejection ratio.

Questions of equal score are taken as in random order, in expectation: the result does not depend on how they happen to
be listed, and a score that says nothing is exactly as good as chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class RiskCoverage:
    """The curve over the number of questions answered, the most certain first.

    Attributes:
        coverage: 1/n, 2/n, … 1: the share of questions answered.
        risk: Their mean loss, 1 - quality, at each coverage.
    """

    coverage: tuple[float, ...]
    risk: tuple[float, ...]

    @property
    def area(self) -> float:
        """AURC: the mean risk over all coverages (Geifman et al., 2019); less is better."""
        return math.fsum(self.risk) / len(self.risk)


def risk_coverage(scores: Sequence[float], quality: Sequence[float]) -> RiskCoverage:
    """Risk against coverage (El-Yaniv and Wiener, 2010).

    Args:
        scores: How certain each answer is, such as T_c; higher is more certain.
        quality: How good each answer is, from 0 to 1, such as EM or F1, in the same order.

    Raises:
        ValueError: The two differ in length or are empty, or hold what is no number, or a quality not from 0 to 1.
    """
    if len(scores) != len(quality):
        raise ValueError(f"scores and quality must be of one length, not {len(scores)} and {len(quality)}")
    if not scores:
        raise ValueError("a curve needs at least one answer")
    if any(math.isnan(score) for score in scores) or not all(0 <= value <= 1 for value in quality):
        raise ValueError("scores must be numbers, and qualities numbers from 0 to 1")
    ranked = sorted(zip(scores, quality, strict=True), key=lambda pair: -pair[0])
    risk: list[float] = []
    lost = 0.0
    for _, group in groupby(ranked, key=lambda pair: pair[0]):
        losses = [1 - value for _, value in group]
        mean = math.fsum(losses) / len(losses)
        risk += [(lost + mean * place) / (len(risk) + place) for place in range(1, len(losses) + 1)]
        lost += mean * len(losses)
    return RiskCoverage(tuple(place / len(ranked) for place in range(1, len(ranked) + 1)), tuple(risk))


def aurc(scores: Sequence[float], quality: Sequence[float]) -> float:
    """The area under the risk-coverage curve; see `risk_coverage` for arguments and errors."""
    return risk_coverage(scores, quality).area


def prediction_rejection_ratio(scores: Sequence[float], quality: Sequence[float]) -> float:
    """PRR: how much of what the ideal order of rejecting answers gains over a random one a score gains.

    As in Malinin and Gales (2021), with the areas taken over all rejection rates, as LM-Polygraph does:
    (random - AURC of the score) / (random - AURC of the ideal order), where random is the mean risk.

    Args:
        scores: How certain each answer is; higher is more certain.
        quality: How good each answer is, from 0 to 1, in the same order.

    Returns:
        1 for the ideal order, 0 for chance, below 0 for a score that misleads.

    Raises:
        ValueError: As for `risk_coverage`, or all answers are equally good, so that no order is better than another.
    """
    curve = risk_coverage(scores, quality)
    if min(quality) == max(quality):
        raise ValueError(f"PRR needs answers that differ in quality; all have {quality[0]}")
    chance = curve.risk[-1]
    return (chance - curve.area) / (chance - aurc(quality, quality))
