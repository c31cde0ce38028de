"""Answers that nothing else can replace, from language models whose replies often cannot be used.

A weak model answers and then rambles on until the token limit, spoils a marker, or, at temperature 0, goes round in
circles. Half an answer must not pass for one: of a reply that cannot be used as a whole, the answer's first line counts
where it is complete, and of a line that was cut off its complete sentences do. Where there is none, the same is asked
again and drawn, which ends a circle.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import dspy

from keqa.programs.runtime.answered import refusing_empty, says_nothing
from keqa.programs.runtime.attempts import ANSWER, attempted
from keqa.programs.runtime.copied import COPIED, Copies
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.retrievers.splitting import stripped_sentences

# As in `keqa.signatures.markers`, at the start of a line; written with less care.
_MARKER = re.compile(
    r"^[^\S\n]*(?:\[\[++[^\S\n]*#|\[[^\S\n]*##)#*+[^\S\n]*(?:(\w+)[^\S\n]*(#++[^\S\n]*\]++)?)?", re.MULTILINE
)
_COMPLETED = "completed"
# What is left of that marker where a reply ends within it.
_ENDING = re.compile(r"\[++[^\S\n]*#++[^\S\n]*(\w*)[^\S\n]*#*+[^\S\n]*\]*+\s*\Z")
_ENDING_CHARS = 60
# What stands before an answer in a reply without markers, what no such reply is, and how long it is at most.
_ANNOUNCED = re.compile(r"(?:(?:the|my)\s+)?(?:\w+\s+)?answer\s*+(?:is\b\s*+:?|:)\s*+", re.IGNORECASE)
_STRUCTURED = re.compile(r"\[\[|##|```|\A[\[{<]")
_SHORT = 200


async def predict_with_retry(
    session: Session,
    ask: Callable[[int], Awaitable[dspy.Prediction]],
    number: int | None = None,
    *,
    stage: str = "answer",
    copies: Copies | None = None,
) -> dspy.Prediction:
    """Ask for an answer, and again where there is none; every attempt is recorded.

    Args:
        session: The calls of the question.
        ask: Makes an attempt, which gets its number; see `Session.predict`. It refuses an answer that says nothing
            (`keqa.programs.runtime.answered`).
        number: The quiz's number, for degradations.
        stage: Which stage it is, for degradations.
        copies: Refuses an answer that was copied from a demonstration. Where it does, language models that may be asked
            without any demonstration lose the form, and one short line without a marker is an answer as well.

    Returns:
        The prediction; of one that was salvaged, the answer alone.

    Raises:
        CallError: No attempt gave an answer.
    """

    def stands_in(error: CallError) -> dspy.Prediction | None:
        line = None if error.cause == COPIED else salvaged(session, error, stage, number, copies)
        return None if line is None else dspy.Prediction(answer=line)

    return await attempted(session, ask, stage, number, draws=ANSWER, stands_in=stands_in)


async def ask_for_answer(
    session: Session,
    predictor: dspy.Predict,
    role: str,
    *,
    stage: str = "answer",
    numbered: bool = False,
    **inputs: Any,
) -> dspy.Prediction:
    """Ask a predictor for an answer that says something; see `predict_with_retry`.

    Args:
        session: The calls of the question.
        predictor: Which to call.
        role: To whom the cost is charged.
        stage: Which stage it is, for degradations.
        numbered: See `keqa.programs.runtime.answered.refusing_empty`.
        **inputs: Every input field; `choices`, where the prompt has a place for them, are never refused.

    Raises:
        CallError: No attempt gave an answer.
    """

    async def ask(attempt: int) -> dspy.Prediction:
        usable = refusing_empty(inputs.get("choices", ()), numbered=numbered, last=attempt == ANSWER)
        return await session.predict(predictor, role, attempt=attempt, usable=usable, **inputs)

    return await predict_with_retry(session, ask, stage=stage)


def salvaged(
    session: Session, error: CallError, stage: str, number: int | None = None, copies: Copies | None = None
) -> str | None:
    """Take the first line of an answer, and record that it was taken.

    Args:
        session: The calls of the question.
        error: What became of the call.
        stage: Which stage it was, for the degradation.
        number: The quiz's number, for the degradation.
        copies: See `predict_with_retry`.

    Returns:
        The line; None where there is none, or where no reply was the trouble.
    """
    reply = error.reply or ""
    line = first_line(reply, "answer")
    if copies is not None:
        bare = None if line else only_line(reply)
        line = bare if bare is not None and copies.touched_by(bare) else line
        line = None if line is None or copies.found_in(line) else line
    if line is not None:
        session.note(stage, error.cause, error.message, "took the first line of the answer", number)
    return line


def first_line(reply: str, field: str) -> str | None:
    """The first line of a field's value that says something; of a field named twice that of the last.

    Args:
        reply: What a language model wrote; it ends with a line break unless it was cut off.
        field: Name of the field, whose marker the reply must have at the start of a line, if carelessly written.

    Returns:
        The line, or its complete sentences where it was cut off; None where there are none. Where the reply was cut off
        while it said again what it had said before, the line that is said again.
    """
    markers = list(_MARKER.finditer(reply))
    ends = [*(marker.start() for marker in markers[1:]), len(reply)]
    named = [
        reply[marker.end() : end]
        for marker, end in zip(markers, ends, strict=False)
        if marker[2] and marker[1].casefold() == field.casefold()
    ]
    if not named:
        return None
    line = _first_complete(named[-1])
    if line is None and len(named) > 1:
        before, again = _first_complete(named[-2]), named[-1].strip()
        return before if again and before is not None and before.startswith(again) else None
    return line


def only_line(reply: str) -> str | None:
    """A reply that is one short line without any marker, and without what announces an answer in it.

    Args:
        reply: What a language model wrote; it ends with a line break unless it was cut off.

    Returns:
        The line; None where the reply is anything else, or says nothing.
    """
    line = reply.strip()
    if not reply.endswith("\n") or "\n" in line or len(line) > _SHORT or _STRUCTURED.search(line):
        return None
    line = _ANNOUNCED.sub("", line, count=1) if _ANNOUNCED.match(line) else line
    return line if any(map(str.isalnum, line)) and not says_nothing(line, numbered=True) else None


def _first_complete(value: str) -> str | None:
    *whole, cut = _without_ending(value).split("\n")
    found = [*whole, " ".join(stripped_sentences(cut)[:-1])]
    telling = (line for line in found if any(char.isalnum() for char in line) and not says_nothing(line, numbered=True))
    return next((line.strip() for line in telling), None)


def _without_ending(value: str) -> str:
    """A value whose last line ends with the marker ``completed``, or with a part of it, as a whole line without it."""
    ending = _ENDING.search(value, max(0, len(value) - _ENDING_CHARS))
    if ending is None or not _COMPLETED.startswith(ending[1].casefold()):
        return value
    return f"{value[: ending.start()]}\n"
