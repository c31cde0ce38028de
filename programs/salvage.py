"""Answers for which nothing else stands in, from language models whose replies often cannot be used.

A weak model answers and then rambles on until the token limit, spoils a marker, or, at temperature 0, goes round in
circles. Half an answer must not pass for one: of a reply that cannot be used as a whole, the answer's first line counts
where it is complete, and of a line that was cut off its complete sentences do. Where there is none, the same is asked
again and drawn, which ends a circle.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import dspy

from keqa.programs.attempts import ANSWER, attempted
from keqa.programs.call_errors import CallError
from keqa.programs.calls import Session
from keqa.programs.selection import sentences

__all__ = ["answered", "first_line", "salvaged"]

_MARKER = r"\[+\s*#+\s*(?:{})\s*#+\s*\]+"
_ANY_MARKER = re.compile(r"\[+\s*#[^\]\n]*\]*")


async def answered(
    session: Session,
    ask: Callable[[int], Awaitable[dspy.Prediction]],
    number: int | None = None,
    *,
    stage: str = "answer",
) -> dspy.Prediction:
    """Ask for an answer, and again where there is none; every attempt is recorded.

    Args:
        session: The calls of the question.
        ask: Makes an attempt, of which it is told the number; see `Session.predict`. It refuses an empty answer.
        number: The quiz's number, for degradations.
        stage: Which stage it is, for degradations.

    Returns:
        The prediction; of one that was salvaged, the answer alone.

    Raises:
        CallError: No attempt gave an answer.
    """

    def stands_in(error: CallError) -> dspy.Prediction | None:
        line = salvaged(session, error, stage, number)
        return None if line is None else dspy.Prediction(answer=line)

    return await attempted(session, ask, stage, number, draws=ANSWER, stands_in=stands_in)


def salvaged(session: Session, error: CallError, stage: str, number: int | None = None) -> str | None:
    """Take the first line of an answer, and record that it was taken.

    Args:
        session: The calls of the question.
        error: What became of the call.
        stage: Which stage it was, for the degradation.
        number: The quiz's number, for the degradation.

    Returns:
        The line; None where there is none, or where no reply was the trouble.
    """
    line = None if error.reply is None else first_line(error.reply, "answer")
    if line is not None:
        session.note(stage, error.cause, error.message, "took the first line of the answer", number)
    return line


def first_line(reply: str, field: str) -> str | None:
    """The first line of a field's value that tells something.

    Args:
        reply: What a language model wrote; it ends with a line break unless it was cut off.
        field: Name of the field, whose marker the reply must have, if carelessly written.

    Returns:
        The line, or its complete sentences where it was cut off; None where there are none.
    """
    parts = re.split(_MARKER.format(re.escape(field)), reply, maxsplit=1, flags=re.IGNORECASE)
    if len(parts) < 2:
        return None
    *whole, cut = _ANY_MARKER.sub("\n", parts[1]).split("\n")
    found = [*whole, " ".join(sentences(cut)[:-1])]
    return next((line.strip() for line in found if any(char.isalnum() for char in line)), None)
