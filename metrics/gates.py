"""How well a gate's score separates what an LM knows from what it does not know."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["auroc"]


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
    import numpy as np
    from scipy.stats import rankdata

    known, unknown = len(known_scores), len(unknown_scores)
    if not known or not unknown:
        raise ValueError(f"AUROC needs items of both kinds, not {known} known and {unknown} unknown")
    scores = np.asarray([*known_scores, *unknown_scores], dtype=float)
    if np.isnan(scores).any():
        raise ValueError("scores must be numbers")
    ranks = rankdata(scores, method="average")
    above = float(ranks[:known].sum()) - known * (known + 1) / 2
    return above / (known * unknown)
