"""From collected draws to what a boundary model is to say: of each reading of a quiz its signals and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from keqa.metrics.answers import normalize
from keqa.optimize.boundary.collect import CollectedDraw, CollectedQuiz
from keqa.programs.boundary.features import certainty
from keqa.programs.boundary.model import Reads, Signals

DRAWS = 5
"""So many draws a gate makes where nothing else is set: those collected are read in sets of as many."""
_MOST_READINGS = 5


@dataclass(frozen=True)
class Reading:
    """A quiz as a gate would come to see it.

    Attributes:
        signals: The draws that are read.
        mastery: How right the answer is that would be given from memory.
        certainty: How much all draws agree; see `keqa.programs.boundary.features.certainty`.
    """

    signals: Signals
    mastery: float
    certainty: float


def readings(quiz: CollectedQuiz, reads: Reads) -> list[Reading]:
    """A quiz in the ways in which a gate may come to see it, five at most.

    Of a model that reads a draft each draw is one, and is right or not; of one that reads draws each set of five is
    one, as right as its most frequent answer; for one that reads the quiz alone, it is the share of right answers.

    Args:
        quiz: As collected.
        reads: What the model reads.
    """
    agreement = certainty(quiz.signals())
    if reads == "quiz":
        return [Reading(Signals(answer_type=quiz.answer_type), float(quiz.accuracy), agreement)]
    sets = list(_sets(quiz, 1 if reads == "draft" else DRAWS))[:_MOST_READINGS]
    return [Reading(quiz.signals(some), float(_leading_right(quiz, some)), agreement) for some in sets]


def _sets(quiz: CollectedQuiz, size: int) -> Iterator[list[CollectedDraw]]:
    """Successive sets of so many draws; all of them where there are fewer."""
    size = min(size, len(quiz.draws))
    for start in range(0, len(quiz.draws) - size + 1, size):
        yield quiz.draws[start : start + size]


def _leading_right(quiz: CollectedQuiz, draws: list[CollectedDraw]) -> bool:
    """Whether the most frequent answer is right, the first one of equals; an abstention is none."""
    said = [normalize(draw.text, quiz.answer_type, quiz.choices) for draw in draws if draw.text is not None]
    if not said:
        return False
    leading = Counter(said).most_common(1)[0][0]
    right = (draw.right for draw in draws if draw.text is not None)
    return any(good for text, good in zip(said, right, strict=True) if text == leading)
