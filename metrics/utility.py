"""The utility of knowledge to a question (KEQA, section 3.4, utility reference).

With Cor(Q, K*) the correctness of the answer that the language model gives to question Q from knowledge K*, the utility
U(Q, K') of a further piece of knowledge K' is the sign of Cor(Q, K* ∪ {K'}) - Cor(Q, K*). Cor may be any metric; the
paper's is F1.
"""

import math
from collections.abc import Callable, Sequence

Correctness = Callable[[str | None, Sequence[str], str, Sequence[str]], float]
"""Cor: from an answer (None where there is none), gold answers, answer type and choices to a number that is higher
where the answer is more correct, such as `keqa.metrics.answers.f1`."""

_ROUNDING = 1e-9


def gain(with_candidate: float, without: float) -> float:
    """How much a piece of knowledge adds to the correctness of the answer (the difference behind U)."""
    if not (math.isfinite(with_candidate) and math.isfinite(without)):
        raise ValueError(f"correctness must be a finite number, not {with_candidate} and {without}")
    return with_candidate - without


def utility(with_candidate: float, without: float) -> int:
    """U(Q, K'): 1 helpful, 0 of no consequence, -1 harmful; what may be rounding is no difference."""
    difference = gain(with_candidate, without)
    return (difference > _ROUNDING) - (difference < -_ROUNDING)
