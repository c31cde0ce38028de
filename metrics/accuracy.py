"""Whether an answer is right, where equality of short strings is not the question."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from keqa.metrics.answers import exact_match, is_abstention, tokens

__all__ = ["accuracy", "contains_answer", "mastery"]


def accuracy(
    prediction: str | None, golds: Sequence[str], answer_type: str = "yes/no", choices: Sequence[str] = ()
) -> float:
    """1 where a yes/no answer or a choice is the right one, else 0 (ACC of the KEQA paper's Table 1).

    Args:
        prediction: The answer; None, for a failed question, is never right.
        golds: At least one gold answer.
        answer_type: ``yes/no`` or ``choice``.
        choices: The options of a choice; a prediction or gold answer may name one by its letter or its text.

    Raises:
        ValueError: There is no gold answer, or the answers are of another type, which has no accuracy.
    """
    if answer_type not in ("yes/no", "choice"):
        raise ValueError(f"accuracy is for yes/no answers and choices, not for {answer_type!r}; use EM or F1")
    return float(exact_match(prediction, golds, answer_type, choices))


def contains_answer(
    prediction: str | None, golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> bool:
    """Whether one of the gold answers stands in the prediction, as whole words and in one piece.

    It forgives an LM that answers in a sentence, and it forgives one that lists every answer it can think of; read it
    beside EM. For yes/no answers and choices, which nearly any sentence contains, it is exact match.

    Args:
        prediction: The answer, or a passage; None, for a failed question, contains nothing.
        golds: At least one gold answer.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        choices: The options of a choice.

    Raises:
        ValueError: There is no gold answer.
    """
    exact = exact_match(prediction, golds, answer_type, choices)
    if answer_type != "short" or exact or prediction is None:
        return exact
    words = tokens(prediction)
    return any(_within(tokens(gold), words) for gold in golds)


def mastery(
    answers: Sequence[str | None], golds: Sequence[str], answer_type: str = "short", choices: Sequence[str] = ()
) -> Fraction:
    """The share of sampled answers that are right: KBM's accuracy indicator, first called mastery (section 2.2).

    Args:
        answers: What was drawn; None for a failed draw.
        golds: At least one gold answer.
        answer_type: ``short``, ``yes/no`` or ``choice``.
        choices: The options of a choice.

    Returns:
        Exactly, so that 27 of 30 reach .9. A failed draw and an abstention are not right, and count.

    Raises:
        ValueError: There is no gold answer, or no draw.
    """
    if not answers:
        raise ValueError("mastery needs at least one draw")
    said = [None if answer is None or is_abstention(answer, choices) else answer for answer in answers]
    return Fraction(sum(exact_match(answer, golds, answer_type, choices) for answer in said), len(said))


def _within(part: list[str], whole: list[str]) -> bool:
    ends = range(len(part), len(whole) + 1)
    return bool(part) and any(whole[end - len(part) : end] == part for end in ends)
