"""What is told of an answer in words: that it is a guess, or of a question that documents do not answer what was done.

It is the same for the terminal, agents and programs. The page has its own words, in ``app/page/static/story.js``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keqa.programs.records import FoundQuiz, MissingQuiz, QuestionRecord, Unanswered

GUESS = "(a guess)"
"""What stands behind an answer that is one."""


def said(record: QuestionRecord) -> str:
    """The answer as it is told; a guess is marked as one.

    Args:
        record: Of a question that has an answer.
    """
    return f"{record.answer} {GUESS}" if record.guessed and record.answer else record.answer or ""


def lines_of(unanswered: Unanswered) -> list[tuple[str, list[str]]]:
    """What was asked, searched and read in vain, and what is known of the rest; never the guess.

    Args:
        unanswered: The finding.

    Returns:
        Lines with what belongs to each.
    """
    return [*map(_missing, unanswered.missing), *((_found(one), []) for one in unanswered.found)]


def without_guess(unanswered: Unanswered | None) -> dict[str, Any] | None:
    """The finding as JSON for those who take whatever they are given for an answer: without the guess.

    Args:
        unanswered: The finding; None where there is none.
    """
    return None if unanswered is None else unanswered.model_dump(mode="json", exclude={"guess"})


def _missing(one: MissingQuiz) -> tuple[str, list[str]]:
    why = f" ({one.why})" if one.why else ""
    return f"Missing: {_quoted(one.quiz, one.asked)}: {one.kind}{why}", list(_looked_at(one))


def _looked_at(one: MissingQuiz) -> Iterator[str]:
    if one.searched != [one.asked]:
        yield f"Searched for: {'; '.join(one.searched) or 'nothing'}"
    yield from (f"A source says: {answer}" for answer in one.answers)
    if one.read:
        yield f"Read: {'; '.join(one.read)}"


def _found(one: FoundQuiz) -> str:
    where = "from memory" if one.source == "memory" else "from the documents"
    return f"Known: {_quoted(one.quiz, one.asked)}: {one.answer} ({where})"


def _quoted(quiz: int, asked: str) -> str:
    return f"quiz {quiz}, “{asked}”" if quiz else f"“{asked}”"
