"""What tables and figures say of the lines of a run: means of scores and costs, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from keqa.errors import InputError
from keqa.evaluation.reports.summary import NUMBERS, QuestionSummary

Lines = Sequence[QuestionSummary]

NOT_COMPARABLE_ABOVE = Fraction(1, 10)
"""A method whose outputs did not parse more often than this was not measured, its prompts were."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """How many outputs of a language model could not be read.

    A method that loses because its format is unknown to the LM has not been compared; a table has to show that.

    Attributes:
        failed: Outputs that did not parse.
        outputs: Replies drawn, now or before by what a cache answered; a request may bring several.
    """

    failed: int
    outputs: int

    @property
    def share(self) -> Fraction:
        """The share that did not parse; 0 where nothing was asked."""
        return Fraction(self.failed, self.outputs) if self.outputs else Fraction(0)

    @property
    def comparable(self) -> bool:
        """Whether a row with this share may be compared with others."""
        return self.share <= NOT_COMPARABLE_ABOVE


def quality(line: QuestionSummary) -> float:
    """F1, by which methods are compared question by question; of a yes/no question or choice it is the accuracy.

    A failed question scores 0.
    """
    return _score(line, "f1")


def right(line: QuestionSummary) -> bool:
    """Whether the answer is right by exact match."""
    return _score(line, "em") >= 1.0


def _score(line: QuestionSummary, name: str) -> float:
    found = line.number(name)
    return (line.number("accuracy") or 0.0) if found is None else found


def parsed(lines: Lines) -> Parsed:
    """How many outputs did not parse."""
    outputs = int(sum(_known("samples", lines)))
    return Parsed(min(sum(line.unreadable for line in lines), outputs), outputs)


def measure(name: str, lines: Lines) -> float | None:
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


def _known(name: str, lines: Lines) -> list[float]:
    return [found for line in lines if (found := line.number(name)) is not None]


def _mean(name: str, lines: Lines) -> float | None:
    found = _known(name, lines)
    return sum(found) / len(found) if found else None


def _percentile(percent: int, lines: Lines) -> float | None:
    import numpy as np

    found = _known("seconds", lines)
    return float(np.percentile(found, percent)) if found else None


def _quiz_ratio(lines: Lines) -> float | None:
    asked = sum(line.asked for line in lines)
    return sum(line.searched for line in lines) / asked if asked else None


MEASURES: dict[str, Callable[[Lines], float | None]] = {
    **{name: partial(_mean, name) for name in NUMBERS},
    "seconds p50": partial(_percentile, 50),
    "seconds p95": partial(_percentile, 95),
    "total seconds": lambda lines: sum(line.seconds for line in lines),
    "parse failures": lambda lines: float(parsed(lines).share),
    "quiz retrieval ratio": _quiz_ratio,
}
"""By name. Costs are for one question: ``samples`` are the LM calls that the answers take, as the papers count them,
``task samples`` and so on those of a role, ``requests`` what they were asked in, of which one may carry several,
``calls`` the requests that no cache answered, ``seconds`` those of questions whose calls no cache answered, ``quiz
answering seconds`` and so on those of the calls of a step, added up, and ``total seconds`` the sum over all questions
as they were asked."""
