"""What questions cost: how a cost spreads over them, and how often they are searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keqa.programs.records import QuestionRecord


@dataclass(frozen=True, slots=True)
class Spread:
    """One kind of cost over questions.

    Attributes:
        total: Over all questions.
        mean: Of a question.
        p50: Half of the questions cost at most about this (interpolated between questions).
        p95: 19 of 20 do.
    """

    total: float
    mean: float
    p50: float
    p95: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of some values, one a question.

        Raises:
            ValueError: There is none.
        """
        import numpy as np

        if not values:
            raise ValueError("costs need at least one question")
        numbers = np.asarray(values, dtype=float)
        p50, p95 = np.percentile(numbers, [50, 95])
        return cls(float(numbers.sum()), float(numbers.mean()), float(p50), float(p95))


def searched(record: QuestionRecord) -> list[bool]:
    """Whether each quiz of a question was searched for.

    A quiz that was never asked, for it was blocked or skipped, does not count. A question answered by itself is a quiz:
    that of a baseline, and that of a fallback.
    """
    quizzes = [quiz for quiz in record.quizzes if quiz.source not in ("blocked", "skipped")]
    quizzes += [record.fallback] if record.fallback is not None else []
    return [quiz.retrieved for quiz in quizzes] or [record.cost.retrievals > 0]
