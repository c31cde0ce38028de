"""The utility of knowledge to a question (KEQA, section 3.4, utility reference).

With Cor(Q, K*) the correctness of the answer that the language model gives to question Q from knowledge K*, the utility
of a further piece of knowledge K' is

    U(Q, K') =  1  where  Cor(Q, K* ∪ {K'}) > Cor(Q, K*)
                0  where  Cor(Q, K* ∪ {K'}) = Cor(Q, K*)
               -1  where  Cor(Q, K* ∪ {K'}) < Cor(Q, K*)

Cor may be any metric; the paper's is F1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Correctness = Callable[[str | None, Sequence[str], str, Sequence[str]], float]
"""Cor: from an answer (None where there is none), gold answers, answer type and choices to a number that is higher
where the answer is more correct. `keqa.metrics.answers.f1` is one; it takes the best match among the gold answers."""

Utility = Literal[1, 0, -1]
"""Helpful, of no consequence, harmful."""


def gain(with_candidate: float, without: float) -> float:
    """How much a piece of knowledge adds to the correctness of the answer (the difference behind U)."""
    if not (math.isfinite(with_candidate) and math.isfinite(without)):
        raise ValueError(f"correctness must be a finite number, not {with_candidate} and {without}")
    return with_candidate - without


def utility(with_candidate: float, without: float, *, tolerance: float = 1e-9) -> Utility:
    """U(Q, K'); differences up to the tolerance are taken for rounding, and the two for equal."""
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, not {tolerance}")
    difference = gain(with_candidate, without)
    if abs(difference) <= tolerance:
        return 0
    return 1 if difference > 0 else -1
