"""What tables and figures say of the lines of a run: means of scores and costs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from keqa.errors import InputError
from keqa.metrics.costs import Spread, question_retrieval_ratio, quiz_retrieval_ratio
from keqa.metrics.parsing import Parsed, parse_failures
from keqa.programs.records import Cost, QuestionRecord
from keqa.runs.lines import RunLine

__all__ = ["MEASURES", "ROLES", "cost_of", "made_anew", "measure", "parsed", "quality", "records", "right"]


ROLES = ("task", "consistency", "utility")
"""Whom calls are charged to; see `keqa.programs.records.Cost`."""


def quality(line: RunLine) -> float:
    """F1, by which methods are compared question by question; of a yes/no question or choice it is the accuracy.

    A failed question scores 0.
    """
    return line.scores.get("f1", line.scores.get("accuracy", 0.0))


def right(line: RunLine) -> bool:
    """Whether the answer is right by exact match."""
    return line.scores.get("em", line.scores.get("accuracy", 0.0)) >= 1.0


def cost_of(line: RunLine) -> Cost:
    """What a question cost; nothing where it could not even be asked."""
    return Cost() if line.record is None else line.record.cost


def made_anew(line: RunLine) -> bool:
    """Whether no cache answered any of a question's calls, so that its seconds are those of the language model."""
    cost = cost_of(line)
    return cost.calls == cost.lm_requests


def records(lines: Sequence[RunLine]) -> list[QuestionRecord]:
    """The stories of the questions that have one."""
    return [line.record for line in lines if line.record is not None]


def parsed(lines: Sequence[RunLine]) -> Parsed:
    """How many outputs did not parse."""
    return parse_failures(records(lines))


def measure(name: str, lines: Sequence[RunLine]) -> float | None:
    """A measure over lines.

    Args:
        name: One of `MEASURES`.
        lines: Of one run.

    Returns:
        Its value; None where no line has it, such as the accuracy of open questions.

    Raises:
        InputError: There is no such measure.
    """
    if name not in MEASURES:
        raise InputError(f"there is no measure {name!r}; there are {', '.join(MEASURES)}")
    return MEASURES[name](lines) if lines else None


def _mean(of: Callable[[RunLine], float]) -> Callable[[Sequence[RunLine]], float | None]:
    return lambda lines: sum(of(line) for line in lines) / len(lines)


def _score(name: str) -> Callable[[Sequence[RunLine]], float | None]:
    def mean(lines: Sequence[RunLine]) -> float | None:
        found = [line.scores[name] for line in lines if name in line.scores]
        return sum(found) / len(found) if found else None

    return mean


def _tokens(line: RunLine) -> float:
    return sum(role.prompt_tokens + role.completion_tokens for role in cost_of(line).by_role.values())


def _asked(role: str) -> Callable[[RunLine], float]:
    def asked(line: RunLine) -> float:
        cost = cost_of(line).by_role.get(role)
        return 0.0 if cost is None else cost.calls + cost.cached

    return asked


def _seconds(of: Callable[[Spread], float]) -> Callable[[Sequence[RunLine]], float | None]:
    def seconds(lines: Sequence[RunLine]) -> float | None:
        found = [line.seconds for line in lines if made_anew(line)]
        return of(Spread.of(found)) if found else None

    return seconds


def _ratio(of: Callable[[list[QuestionRecord]], Fraction]) -> Callable[[Sequence[RunLine]], float | None]:
    def ratio(lines: Sequence[RunLine]) -> float | None:
        try:
            return float(of(records(lines)))
        except ValueError:
            return None

    return ratio


MEASURES: dict[str, Callable[[Sequence[RunLine]], float | None]] = {
    "f1": _score("f1"),
    "em": _score("em"),
    "accuracy": _score("accuracy"),
    "contains": _score("contains"),
    "failed": _mean(lambda line: float(line.failed)),
    "retrievals": _mean(lambda line: cost_of(line).retrievals),
    "requests": _mean(lambda line: cost_of(line).lm_requests),
    **{f"{role} requests": _mean(_asked(role)) for role in ROLES},
    "calls": _mean(lambda line: cost_of(line).calls),
    "tokens": _mean(_tokens),
    "tokens read": _mean(lambda line: sum(role.prompt_tokens for role in cost_of(line).by_role.values())),
    "tokens written": _mean(lambda line: sum(role.completion_tokens for role in cost_of(line).by_role.values())),
    "seconds": _seconds(lambda spread: spread.mean),
    "seconds p50": _seconds(lambda spread: spread.p50),
    "seconds p95": _seconds(lambda spread: spread.p95),
    "parse failures": lambda lines: float(parsed(lines).share),
    "quiz retrieval ratio": _ratio(quiz_retrieval_ratio),
    "question retrieval ratio": _ratio(question_retrieval_ratio),
}
"""By name. Costs are for one question: ``requests`` are the LM calls that the answers take, ``task requests`` and so on
those of a role, ``calls`` those that no cache answered, and ``seconds`` those of questions whose calls were all made
anew."""
