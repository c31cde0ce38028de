"""Answers beside "I do not know", scored as what they are: silence is neither right nor wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Abstention:
    """How a method fares that may abstain.

    Attributes:
        questions: How many were asked.
        answered: How many of them were answered.
        right: How many of those were right.
    """

    questions: int
    answered: int
    right: int

    @classmethod
    def of(cls, right: Sequence[bool | None]) -> Abstention:
        """Count.

        Args:
            right: Whether each answer is right; None where the method abstained.

        Raises:
            ValueError: There is no question.
        """
        if not right:
            raise ValueError("abstention is of at least one question")
        given = [one for one in right if one is not None]
        return cls(len(right), len(given), sum(given))

    @property
    def coverage(self) -> float:
        """The share of the questions that were answered."""
        return self.answered / self.questions

    @property
    def risk(self) -> float | None:
        """The share of the answers that are wrong; None where nothing was answered."""
        return None if not self.answered else 1 - self.right / self.answered

    def credit(self, target: float) -> float:
        """The mean of 1 for a right answer, 0 for none, and -t / (1 - t) for a wrong one (Kalai et al., 2025).

        By it an answer is worth giving exactly where its chance to be right exceeds the target.

        Args:
            target: t, from 0, by which silence is never worth more than a guess, to below 1.

        Raises:
            ValueError: The target is out of range.
        """
        if not 0 <= target < 1:
            raise ValueError(f"the target must be from 0 to below 1, not {target}")
        wrong = self.answered - self.right
        return (self.right - wrong * target / (1 - target)) / self.questions
