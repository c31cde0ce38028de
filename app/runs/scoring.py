"""The scores of one answer."""

from __future__ import annotations

from keqa.data.example import Example
from keqa.metrics.accuracy import accuracy, contains_answer
from keqa.metrics.answers import exact_match, f1

__all__ = ["scores_of"]


def scores_of(answer: str | None, example: Example) -> dict[str, float]:
    """Every score that an answer has, from 0 to 1.

    Args:
        answer: None for a failed question, which scores 0.
        example: The question with its gold answers.

    Returns:
        ``em``, ``f1`` and ``contains``, and for yes/no questions and choices ``accuracy``.
    """
    asked = (example.answers, example.answer_type, example.choices)
    scores = {
        "em": float(exact_match(answer, *asked)),
        "f1": f1(answer, *asked),
        "contains": float(contains_answer(answer, *asked)),
    }
    if example.answer_type != "short":
        scores["accuracy"] = accuracy(answer, *asked)
    return scores
