"""Whether a confidence means what it says: of the answers given with a confidence of 80 %, four in five should be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bin:
    """Answers of similar confidence.

    Attributes:
        low: Confidences above this; the first one holds 0 as well.
        high: Confidences up to this.
        count: How many answers.
        confidence: Their mean confidence.
        accuracy: Their mean quality.
    """

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


def reliability(confidences: Sequence[float], quality: Sequence[float], bins: int = 10) -> list[Bin]:
    """The reliability diagram: bins of equal width, without the empty ones.

    Args:
        confidences: From 0 to 1, such as T_c or a stated confidence.
        quality: Whether each answer is right, or how right it is from 0 to 1, in the same order.
        bins: How many parts 0 to 1 is cut into.

    Raises:
        ValueError: The two differ in length or are empty, a number is not from 0 to 1, or there is no bin.
    """
    if len(confidences) != len(quality):
        raise ValueError(f"confidences and quality must be of one length, not {len(confidences)} and {len(quality)}")
    if not confidences or bins < 1:
        raise ValueError("calibration needs at least one answer and one bin")
    if not all(0 <= value <= 1 for value in (*confidences, *quality)):
        raise ValueError("confidences and qualities must be numbers from 0 to 1")
    members: dict[int, list[tuple[float, float]]] = {}
    for pair in zip(confidences, quality, strict=True):
        # Rounded first: 0.1 + 0.2 is a float above 0.3, and has no place in the bin above.
        members.setdefault(max(0, math.ceil(round(pair[0] * bins, 9)) - 1), []).append(pair)
    return [
        Bin(
            low=position / bins,
            high=(position + 1) / bins,
            count=len(pairs),
            confidence=math.fsum(confidence for confidence, _ in pairs) / len(pairs),
            accuracy=math.fsum(value for _, value in pairs) / len(pairs),
        )
        for position, pairs in sorted(members.items())
    ]


def brier(confidences: Sequence[float], quality: Sequence[float]) -> float:
    """The Brier score: the mean square of what lies between confidence and quality; less is better (Brier, 1950).

    Args:
        confidences: From 0 to 1.
        quality: Whether each answer is right, or how right it is from 0 to 1, in the same order.

    Raises:
        ValueError: As for `reliability`.
    """
    reliability(confidences, quality, 1)
    pairs = zip(confidences, quality, strict=True)
    return math.fsum((confidence - value) ** 2 for confidence, value in pairs) / len(confidences)


def expected_calibration_error(confidences: Sequence[float], quality: Sequence[float], bins: int = 10) -> float:
    """ECE: the distance between confidence and accuracy, averaged over bins by their size (Guo et al., 2017, eq. 5).

    Args:
        confidences: From 0 to 1.
        quality: Whether each answer is right, or how right it is from 0 to 1, in the same order.
        bins: How many parts 0 to 1 is cut into.

    Returns:
        From 0, calibrated, to 1.

    Raises:
        ValueError: As for `reliability`.
    """
    found = reliability(confidences, quality, bins)
    return math.fsum(one.count * abs(one.accuracy - one.confidence) for one in found) / len(confidences)
