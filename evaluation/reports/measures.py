"""What tables and figures say of the lines of a run: means of scores and costs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keqa.errors import InputError
from keqa.evaluation.costs import Spread
from keqa.evaluation.parsing import Parsed
from keqa.evaluation.reports.summary import ROLES, STEPS, QuestionCost, QuestionSummary

__all__ = ["MEASURES", "made_anew", "measure", "parsed", "quality", "right"]


def quality(line: QuestionSummary) -> float:
    """F1, by which methods are compared question by question; of a yes/no question or choice it is the accuracy.

    A failed question scores 0.
    """
    return line.scores.get("f1", line.scores.get("accuracy", 0.0))


def right(line: QuestionSummary) -> bool:
    """Whether the answer is right by exact match."""
    return line.scores.get("em", line.scores.get("accuracy", 0.0)) >= 1.0


def made_anew(line: QuestionSummary) -> bool:
    """Whether no cache answered any of a question's calls, so that its seconds are those of the language model."""
    return line.paid.calls == line.paid.requests


def parsed(lines: Sequence[QuestionSummary]) -> Parsed:
    """How many outputs did not parse."""
    outputs = sum(line.paid.samples for line in lines)
    return Parsed(min(sum(line.unreadable for line in lines), outputs), outputs)


def measure(name: str, lines: Sequence[QuestionSummary]) -> float | None:
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


def _mean(of: Callable[[QuestionSummary], float]) -> Callable[[Sequence[QuestionSummary]], float | None]:
    return lambda lines: sum(of(line) for line in lines) / len(lines)


def _score(name: str) -> Callable[[Sequence[QuestionSummary]], float | None]:
    def mean(lines: Sequence[QuestionSummary]) -> float | None:
        found = [line.scores[name] for line in lines if name in line.scores]
        return sum(found) / len(found) if found else None

    return mean


def _of_role(
    of: Callable[[QuestionCost], tuple[int, ...]], role: str
) -> Callable[[Sequence[QuestionSummary]], float | None]:
    place = ROLES.index(role)
    return _mean(lambda line: of(line.paid)[place])


def _seconds(of: Callable[[Spread], float]) -> Callable[[Sequence[QuestionSummary]], float | None]:
    def seconds(lines: Sequence[QuestionSummary]) -> float | None:
        found = [line.seconds for line in lines if made_anew(line)]
        return of(Spread.of(found)) if found else None

    return seconds


def _step_seconds(place: int) -> Callable[[Sequence[QuestionSummary]], float | None]:
    def seconds(lines: Sequence[QuestionSummary]) -> float | None:
        found = [line.paid.step_seconds[place] for line in lines if line.paid.step_seconds and made_anew(line)]
        return sum(found) / len(found) if found else None

    return seconds


def _step_samples(place: int) -> Callable[[Sequence[QuestionSummary]], float | None]:
    def samples(lines: Sequence[QuestionSummary]) -> float | None:
        found = [line.paid.step_samples[place] for line in lines if line.paid.step_samples]
        return sum(found) / len(found) if found else None

    return samples


def _quiz_ratio(lines: Sequence[QuestionSummary]) -> float | None:
    asked = sum(line.asked for line in lines)
    return sum(line.searched for line in lines) / asked if asked else None


def _question_ratio(lines: Sequence[QuestionSummary]) -> float | None:
    found = [line.paid.retrievals > 0 for line in lines if line.story]
    return sum(found) / len(found) if found else None


MEASURES: dict[str, Callable[[Sequence[QuestionSummary]], float | None]] = {
    "f1": _score("f1"),
    "em": _score("em"),
    "accuracy": _score("accuracy"),
    "contains": _score("contains"),
    "failed": _mean(lambda line: float(line.failed)),
    "retrievals": _mean(lambda line: line.paid.retrievals),
    "requests": _mean(lambda line: line.paid.requests),
    "samples": _mean(lambda line: line.paid.samples),
    **{f"{role} samples": _of_role(lambda paid: paid.asked, role) for role in ROLES},
    "calls": _mean(lambda line: line.paid.calls),
    "tokens": _mean(lambda line: line.paid.read + line.paid.written),
    **{f"{role} tokens": _of_role(lambda paid: paid.tokens, role) for role in ROLES},
    "tokens read": _mean(lambda line: line.paid.read),
    "tokens written": _mean(lambda line: line.paid.written),
    "seconds": _seconds(lambda spread: spread.mean),
    "seconds p50": _seconds(lambda spread: spread.p50),
    "seconds p95": _seconds(lambda spread: spread.p95),
    **{f"{step} seconds": _step_seconds(place) for place, step in enumerate(STEPS)},
    **{f"{step} samples": _step_samples(place) for place, step in enumerate(STEPS)},
    "total seconds": lambda lines: sum(line.seconds for line in lines),
    "parse failures": lambda lines: float(parsed(lines).share),
    "quiz retrieval ratio": _quiz_ratio,
    "question retrieval ratio": _question_ratio,
}
"""By name. Costs are for one question: ``samples`` are the LM calls that the answers take, as the papers count them,
``task samples`` and so on those of a role, ``requests`` what they were asked in, of which one may carry several,
``calls`` the requests that no cache answered, ``seconds`` those of questions whose calls no cache answered, ``quiz
answering seconds`` and so on those of the calls of a step, added up, and ``total seconds`` the sum over all questions
as they were asked."""
