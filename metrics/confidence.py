"""What a score says of the answers that it is given to: whether it ranks them, means what it says, and holds a risk.

Scores and confidences are of answers, higher for the more certain; `quality` is how good each of these is, from 0 to 1,
in the same order, such as EM or F1. What is out of range is a ValueError. Questions of equal score are ranked as in
random order, in expectation, so that a score that says nothing is exactly as good as chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple


def auroc(known_scores: Sequence[float], unknown_scores: Sequence[float]) -> float:
    """The area under the ROC curve of a score that should be higher for what is known; 0.5 is chance.

    It is the chance that a known item scores higher than an unknown one, ties counted half (Mann and Whitney).
    """
    from scipy.stats import mannwhitneyu

    if not known_scores or not unknown_scores:
        raise ValueError("AUROC needs items of both kinds")
    # Of the test only the statistic is wanted; how its p-value is found matters for time alone.
    pairs = float(mannwhitneyu(known_scores, unknown_scores, method="asymptotic").statistic)
    if math.isnan(pairs):
        raise ValueError("scores must be numbers")
    return pairs / (len(known_scores) * len(unknown_scores))


class RiskCoverage(NamedTuple):
    """The curve over the number of questions answered, the most certain first: coverage 1/n, … 1, and mean loss."""

    coverage: tuple[float, ...]
    risk: tuple[float, ...]


def risk_coverage(scores: Sequence[float], quality: Sequence[float]) -> RiskCoverage:
    """Risk, the mean of 1 - quality, against coverage."""
    if not scores or any(map(math.isnan, scores)) or not all(0 <= value <= 1 for value in quality):
        raise ValueError("a curve needs answers: scores that are numbers, and qualities from 0 to 1")
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
    """The area under the risk-coverage curve: the mean risk over all coverages (Geifman et al., 2019)."""
    risk = risk_coverage(scores, quality).risk
    return math.fsum(risk) / len(risk)


def prediction_rejection_ratio(scores: Sequence[float], quality: Sequence[float]) -> float:
    """PRR: how much of what the ideal order of rejecting answers gains over a random one a score gains.

    As in Malinin and Gales (2021), with the areas taken over all rejection rates, as LM-Polygraph does:
    (random - AURC of the score) / (random - AURC of the ideal order), where random is the mean risk. 1 is the ideal
    order, 0 chance, and less a score that misleads; where all answers are equally good there is none.
    """
    chance = risk_coverage(scores, quality).risk[-1]
    if min(quality) == max(quality):
        raise ValueError(f"PRR needs answers that differ in quality; all have {quality[0]}")
    return (chance - aurc(scores, quality)) / (chance - aurc(quality, quality))


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of similar confidence, with their means."""

    count: int
    confidence: float
    accuracy: float


def reliability(confidences: Sequence[float], quality: Sequence[float], bins: int = 10) -> list[Bin]:
    """The reliability diagram: bins of equal width, each with its upper border, without the empty ones."""
    if not confidences or not all(0 <= value <= 1 for value in (*confidences, *quality)):
        raise ValueError("calibration needs answers: confidences and qualities from 0 to 1")
    members: dict[int, list[tuple[float, float]]] = {}
    for pair in zip(confidences, quality, strict=True):
        # Rounded first: 0.1 + 0.2 is a float above 0.3, and has no place in the bin above.
        members.setdefault(max(0, math.ceil(round(pair[0] * bins, 9)) - 1), []).append(pair)
    return [
        Bin(len(pairs), *(math.fsum(values) / len(pairs) for values in zip(*pairs, strict=True)))
        for _, pairs in sorted(members.items())
    ]


def brier(confidences: Sequence[float], quality: Sequence[float]) -> float:
    """The Brier score: the mean square of what lies between confidence and quality; less is better (Brier, 1950)."""
    reliability(confidences, quality, 1)
    pairs = zip(confidences, quality, strict=True)
    return math.fsum((confidence - value) ** 2 for confidence, value in pairs) / len(confidences)


def expected_calibration_error(confidences: Sequence[float], quality: Sequence[float], bins: int = 10) -> float:
    """ECE: the distance between confidence and accuracy, averaged over bins by their size (Guo et al., 2017, eq. 5)."""
    found = reliability(confidences, quality, bins)
    return math.fsum(one.count * abs(one.accuracy - one.confidence) for one in found) / len(confidences)


@dataclass(frozen=True, slots=True)
class Controlled:
    """A threshold that holds a risk: confidences from it on are answered. With the counts that it was tested on."""

    threshold: float
    questions: int
    answered: int
    wrong: int

    @property
    def coverage(self) -> float:
        return self.answered / self.questions


def risk_p_value(wrong: int, answered: int, risk: float) -> float:
    """P(Bin(answered, risk) <= wrong): how probable so few wrong answers are where more than the risk are wrong."""
    from scipy.stats import binom

    return float(binom.cdf(wrong, answered, risk)) if answered else 1.0


def control_risk(
    thresholds: Sequence[float], confidences: Sequence[float], right: Sequence[bool], risk: float, delta: float
) -> Controlled | None:
    """The last of a sequence of thresholds at which the risk is held, with a chance of delta at most that it is not.

    Learn-then-Test (Angelopoulos et al., 2021), for any distribution and number of questions: each threshold is a
    hypothesis, "of the answers whose confidence reaches it more than the risk are wrong", which a binomial test rejects
    or does not. They are tested in the order given, which must not come from the same questions, the most promising
    first, up to the first that is not rejected. None where that is the first of all.
    """
    held = None
    for threshold in thresholds:
        reached = [one for confidence, one in zip(confidences, right, strict=True) if confidence >= threshold]
        wrong = len(reached) - sum(reached)
        if risk_p_value(wrong, len(reached), risk) > delta:
            break
        held = Controlled(threshold, len(right), len(reached), wrong)
    return held
