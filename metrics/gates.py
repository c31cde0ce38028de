"""How well a gate's score separates what an LM knows from what it does not know."""

from __future__ import annotations

import math
from collections.abc import Sequence


def auroc(known_scores: Sequence[float], unknown_scores: Sequence[float]) -> float:
    """The area under the ROC curve of a score that should be higher for what is known.

    It is the chance that a known item scores higher than an unknown one, ties counted half (Mann and Whitney).

    Args:
        known_scores: Scores of items that the LM knows, such as T_c.
        unknown_scores: Scores of items that it does not know.

    Returns:
        From 0 to 1; 0.5 is chance.

    Raises:
        ValueError: If one of the two is empty, or holds something that is not a number.
    """
    from scipy.stats import mannwhitneyu

    if not known_scores or not unknown_scores:
        raise ValueError(
            f"AUROC needs items of both kinds, not {len(known_scores)} known and {len(unknown_scores)} unknown"
        )
    # Of the test only the statistic is wanted; how its p-value is found matters for time alone.
    pairs = float(mannwhitneyu(known_scores, unknown_scores, method="asymptotic").statistic)
    if math.isnan(pairs):
        raise ValueError("scores must be numbers")
    return pairs / (len(known_scores) * len(unknown_scores))
