"""What was selected to answer from: whether it holds the answer, and what is needed for it (selection recall)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from keqa.metrics.accuracy import contains_answer
from keqa.metrics.hotpotqa import is_verdict


def holds_answer(texts: Sequence[str], golds: Sequence[str], answer_type: str = "short") -> bool | None:
    """Whether one of the texts contains a gold answer, as whole words and in one piece.

    It needs no LM that answers, so selections can be compared where the LM is too weak to answer.

    Args:
        texts: Selected sentences, or passages.
        golds: At least one gold answer.
        answer_type: ``short``, ``yes/no`` or ``choice``.

    Returns:
        None for yes, no and choices, which no text has to hold.

    Raises:
        ValueError: There is no gold answer.
    """
    if answer_type != "short" or is_verdict(golds):
        return None
    return any(contains_answer(text, golds) for text in texts)


def share_selected(selected: Collection[int], needed: Collection[int]) -> Fraction | None:
    """The share of what is needed that was selected; None where nothing is needed."""
    wanted = set(needed)
    return Fraction(len(wanted & set(selected)), len(wanted)) if wanted else None
