"""What counts as an answer: weak models write the frame of one, ``[]`` or "The answer is:", and leave it empty."""

from __future__ import annotations

import re

import dspy

from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import text_of

# A pair of brackets around nothing, and what is left of a field's marker. Symbols such as "+" are answers.
_FRAME = re.compile(r"\[\s*+\]|(?<!\[)\[++\s*+#++[^\S\n]*+[a-z_]*+[^\S\n]*+#*+[^\S\n]*+\]*+")
_FENCE = re.compile(r"^[^\S\n]*+```\w*+[^\S\n]*+$", re.MULTILINE)
# Inputs that are lists are numbered so.
_POINTER = re.compile(r"\[\s*+\d{1,2}\s*+\]")
_ANSWER = re.compile(r"\banswers?\b|答案", re.IGNORECASE)


def has_answer(prediction: dspy.Prediction) -> None:
    """Refuse a prediction whose answer says nothing.

    Raises:
        CallError: It does.
    """
    if says_nothing(text_of(prediction.answer)):
        raise CallError("EmptyAnswerError", "the answer was empty", unusable=True)


def has_own_answer(prediction: dspy.Prediction) -> None:
    """Refuse a prediction whose answer says nothing, or only points at a passage or anything else that was numbered.

    Raises:
        CallError: It does.
    """
    if only_points(text_of(prediction.answer)):
        raise CallError("EmptyAnswerError", "the answer was empty", unusable=True)


def says_nothing(text: str) -> bool:
    """Whether a text is empty but for brackets, field markers, fences of code and the announcement of an answer."""
    bare = _FRAME.sub("", _FENCE.sub("", text))
    return not any(line.strip() for line in bare.splitlines() if not _announces(line))


def only_points(text: str) -> bool:
    """Whether a text says nothing besides the number of an input, such as ``[1]``, which nobody sees."""
    return says_nothing(_POINTER.sub("", text))


def _announces(line: str) -> bool:
    return line.rstrip().endswith((":", "：")) and _ANSWER.search(line) is not None
