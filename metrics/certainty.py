"""Certainty of a set of sampled answers, in the three forms that the papers and the code around them use.

All take the sizes of the groups into which the samples fall: exact answer types (KBM, section 2.2) or clusters of one
meaning (KEQA, Algorithm 1). H is the entropy of the groups' shares, with the natural logarithm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from keqa.metrics.answers import normalize

CertaintyForm = Literal["by_types", "plain", "by_samples"]


def entropy(sizes: Sequence[int]) -> float:
    """Entropy, in nats, of the shares of groups.

    Raises:
        ValueError: There is no group, or one without a member.
    """
    if not sizes or min(sizes) < 1:
        raise ValueError("certainty needs at least one group, and at least one member in each")
    total = sum(sizes)
    return sum(-size / total * math.log(size / total) for size in sizes)


def certainty_by_types(sizes: Sequence[int]) -> float:
    """1 - H / log k over k groups; 1 for one group. KBM in its final version.

    It forgets how often each group came up: two groups of 15 and fifteen groups of 2 both have 0.
    """
    # Rounding must not take even groups below 0.
    return 1.0 if _one_group(sizes) else max(0.0, 1.0 - entropy(sizes) / math.log(len(sizes)))


def plain_certainty(sizes: Sequence[int]) -> float:
    """1 - H, not normalised, so that it falls below 0 for more than e even groups. KBM in its first version."""
    return 1.0 if _one_group(sizes) else 1.0 - entropy(sizes)


def certainty_by_samples(sizes: Sequence[int]) -> float:
    """1 - H / log N over N samples; 1 for one group, 0 where all samples differ. Code around KBM."""
    return 1.0 if _one_group(sizes) else max(0.0, 1.0 - entropy(sizes) / math.log(sum(sizes)))


CERTAINTIES: dict[CertaintyForm, Callable[[Sequence[int]], float]] = {
    "by_types": certainty_by_types,
    "plain": plain_certainty,
    "by_samples": certainty_by_samples,
}
"""The three forms by name."""


def answer_type_sizes(answers: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()) -> list[int]:
    """Sizes of the groups of answers that are equal after normalisation, in order of first appearance."""
    return list(Counter(normalize(answer, answer_type, choices) for answer in answers).values())


def _one_group(sizes: Sequence[int]) -> bool:
    entropy(sizes)
    return len(sizes) == 1
