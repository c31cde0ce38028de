"""How much of what a question needs was retrieved, and how far two retrievers agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction


def recall_at_k(retrieved: Sequence[str], gold: Iterable[str], k: int) -> Fraction:
    """Return the share of the gold titles among the first ``k`` retrieved ones.

    Args:
        retrieved: Titles, best first; a title may come up more than once, and each takes a place.
        gold: The titles that the question needs; repeated ones count once.
        k: How many of the retrieved titles count.

    Raises:
        ValueError: There is no gold title, or ``k`` is less than 1.
    """
    wanted = set(gold)
    if not wanted:
        raise ValueError("recall needs at least one gold title")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return Fraction(len(wanted.intersection(retrieved[:k])), len(wanted))


def macro_recall_at_k(retrieved: Sequence[Sequence[str]], gold: Sequence[Iterable[str]], k: int) -> float:
    """Return the mean over questions of :func:`recall_at_k`: each question counts the same, however many titles.

    Args:
        retrieved: For each question, the titles that were retrieved, best first.
        gold: For each question, the titles that it needs.
        k: How many of the retrieved titles count.

    Raises:
        ValueError: There are no questions, the two lists differ in length, or a question has no gold title.
    """
    if not gold:
        raise ValueError("recall needs at least one question")
    recalls = [recall_at_k(titles, wanted, k) for titles, wanted in zip(retrieved, gold, strict=True)]
    return float(sum(recalls, Fraction(0)) / len(recalls))


def mean_overlap_at_k(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]], k: int) -> float:
    """Return the mean over questions of the share of the first ``k`` that two retrievers have in common.

    Where both found fewer than ``k``, the share is of the longer list; two empty ones agree.

    Args:
        one: For each question, the ids that one retriever found, best first.
        other: The same of the other retriever.
        k: How many of the ids count.

    Raises:
        ValueError: There are no questions, the two lists differ in length, or ``k`` is less than 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not one:
        raise ValueError("an overlap needs at least one question")
    pairs = [(set(ids[:k]), set(others[:k])) for ids, others in zip(one, other, strict=True)]
    shares = [len(ids & others) / max(len(ids), len(others)) if ids or others else 1.0 for ids, others in pairs]
    return sum(shares) / len(shares)
