"""What questions cost, from their records: retrievals, calls by role, tokens and seconds, with their quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keqa.programs.records import Cost, QuestionRecord

__all__ = ["CostSummary", "Spread", "question_retrieval_ratio", "quiz_retrieval_ratio", "summarize_costs"]


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


@dataclass(frozen=True, slots=True)
class CostSummary:
    """What a method costs.

    Attributes:
        questions: How many.
        requests: Requests to language models, answered by the cache or not: what a run without a cache would make.
        calls: Those that reached a language model.
        requests_by_role: By ``task``, ``consistency`` and ``utility``, as far as they were asked.
        calls_by_role: Likewise.
        prompt_tokens: As reported, of the calls.
        completion_tokens: As reported, of the calls.
        retrievals: Searches.
        seconds: Wall time.
    """

    questions: int
    requests: Spread
    calls: Spread
    requests_by_role: dict[str, Spread]
    calls_by_role: dict[str, Spread]
    prompt_tokens: Spread
    completion_tokens: Spread
    retrievals: Spread
    seconds: Spread


def summarize_costs(costs: Iterable[Cost]) -> CostSummary:
    """Sum up what questions cost.

    Args:
        costs: One a question, failed ones included; read once, and only numbers are kept.

    Raises:
        ValueError: There is none.
    """
    columns: dict[str, list[float]] = {}
    roles: dict[str, tuple[list[float], list[float]]] = {}
    questions = 0
    for cost in costs:
        row = {
            "requests": cost.lm_requests,
            "calls": cost.calls,
            "prompt_tokens": sum(role.prompt_tokens for role in cost.by_role.values()),
            "completion_tokens": sum(role.completion_tokens for role in cost.by_role.values()),
            "retrievals": cost.retrievals,
            "seconds": cost.seconds,
        }
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        for name, role in cost.by_role.items():
            # A role that earlier questions did not ask cost them nothing.
            requests, calls = roles.setdefault(name, ([0.0] * questions, [0.0] * questions))
            requests.append(role.calls + role.cached)
            calls.append(role.calls)
        questions += 1
        for requests, calls in roles.values():
            requests += [0.0] * (questions - len(requests))
            calls += [0.0] * (questions - len(calls))
    if not questions:
        raise ValueError("costs need at least one question")
    return CostSummary(
        questions=questions,
        requests_by_role={name: Spread.of(requests) for name, (requests, _) in sorted(roles.items())},
        calls_by_role={name: Spread.of(calls) for name, (_, calls) in sorted(roles.items())},
        **{name: Spread.of(values) for name, values in columns.items()},
    )


def question_retrieval_ratio(records: Iterable[QuestionRecord]) -> Fraction:
    """The share of questions that searched at least once (KBM's retrieval ratio, section 3).

    Raises:
        ValueError: There is no question.
    """
    searched = [record.cost.retrievals > 0 for record in records]
    return _share(sum(searched), len(searched), "question")


def quiz_retrieval_ratio(records: Iterable[QuestionRecord]) -> Fraction:
    """The share of quizzes that were searched for.

    A quiz that was never asked, for it was blocked or skipped, does not count. A question answered by itself is a quiz:
    that of a baseline, and that of a fallback.

    Raises:
        ValueError: There is no quiz.
    """
    searched: list[bool] = []
    for record in records:
        quizzes = [quiz for quiz in record.quizzes if quiz.source not in ("blocked", "skipped")]
        quizzes += [record.fallback] if record.fallback is not None else []
        searched += [quiz.retrieved for quiz in quizzes] or [record.cost.retrievals > 0]
    return _share(sum(searched), len(searched), "quiz")


def _share(part: int, whole: int, of: str) -> Fraction:
    if not whole:
        raise ValueError(f"a ratio needs at least one {of}")
    return Fraction(part, whole)
