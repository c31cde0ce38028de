"""How much of what a question needs was retrieved or selected, how far retrievers agree, and who searched in vain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


def recall_at_k(retrieved: Sequence[str], gold: Iterable[str], k: int) -> Fraction:
    """The share of the gold titles among the first ``k`` retrieved ones, each of which takes a place."""
    wanted = set(gold)
    if not wanted:
        raise ValueError("recall needs at least one gold title")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    return Fraction(len(wanted.intersection(retrieved[:k])), len(wanted))


def macro_recall_at_k(retrieved: Sequence[Sequence[str]], gold: Sequence[Iterable[str]], k: int) -> float:
    """The mean of `recall_at_k` over questions: each counts the same, however many titles it needs."""
    if not gold:
        raise ValueError("recall needs at least one question")
    recalls = [recall_at_k(titles, wanted, k) for titles, wanted in zip(retrieved, gold, strict=True)]
    return float(sum(recalls, Fraction(0)) / len(recalls))


def mean_overlap_at_k(one: Sequence[Sequence[str]], other: Sequence[Sequence[str]], k: int) -> float:
    """The mean over questions of the share of the first ``k`` ids that two retrievers have in common.

    Where both found fewer than ``k``, the share is of the longer list; two empty ones agree.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if not one:
        raise ValueError("an overlap needs at least one question")
    pairs = [(set(ids[:k]), set(others[:k])) for ids, others in zip(one, other, strict=True)]
    shares = [len(ids & others) / max(len(ids), len(others)) if ids or others else 1.0 for ids, others in pairs]
    return sum(shares) / len(shares)


def share_selected(selected: Collection[int], needed: Collection[int]) -> Fraction | None:
    """The share of what is needed that was selected; None where nothing is needed."""
    wanted = set(needed)
    return Fraction(len(wanted & set(selected)), len(wanted)) if wanted else None


@dataclass(frozen=True, slots=True)
class SearchRates:
    """Over-search of quizzes that memory answers rightly, under-search of those that it does not."""

    known: int
    over_searched: int
    unknown: int
    under_searched: int

    @classmethod
    def of(cls, decisions: Iterable[tuple[bool, bool]]) -> SearchRates:
        """Count, of each quiz, whether memory knows it, and whether it was searched for."""
        pairs = list(decisions)
        searched = [one for known, one in pairs if known]
        wanted = [one for known, one in pairs if not known]
        return cls(len(searched), sum(searched), len(wanted), len(wanted) - sum(wanted))

    @property
    def over(self) -> float | None:
        """The share of the known that was searched for; None where nothing is known."""
        return self.over_searched / self.known if self.known else None

    @property
    def under(self) -> float | None:
        """The share of the unknown that was not; None where everything is known."""
        return self.under_searched / self.unknown if self.unknown else None
