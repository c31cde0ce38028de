"""What counts as an answer: weak models write the frame of one, ``[]`` or "The answer is:", and leave it empty."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import dropwhile

import dspy

from keqa.metrics.answers import same_answer
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import text_of

# The marker of a field, maybe with less than it should have, and the fences of code.
_MARKER = re.compile(
    r"(?<!\[)\[++\s*+#++[^\S\n]*+(?:answer\w*+|completed|question|quiz|reasoning|explanation)?+[^\S\n]*+#*+[^\S\n]*+\]*+"
    r"(?!\w)",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[^\S\n]*+```(?:json|markdown|plaintext|python|text)?+[^\S\n]*+$", re.MULTILINE)
_EMPTY = re.compile(r"[\[【［]\s*+[\]】］]")
# Inputs that are lists are numbered so.
_POINTER = re.compile(r"[\[【［]\s*+\d{1,2}(?:\s*+,\s*+\d{1,2})*+\s*+[\]】］]")
_BESIDE = " \t\n.,;*。，、"
_WORD = re.compile(r"\w+")
_BEFORE_ANSWER = {"so", "thus", "therefore", "the", "my", "your", "final", "correct", "short"}
_CHINESE = {"答", "答案", "回答", "答案是", "答案为", "正确答案", "正确答案是"}


def refusing_empty(
    choices: Sequence[str] = (), *, numbered: bool = False, last: bool = False
) -> Callable[[dspy.Prediction], None]:
    """What refuses a prediction whose answer says nothing.

    Args:
        choices: The options of a choice; none of them is ever refused.
        numbered: Whether the prompt numbers anything that an answer could point at, such as passages.
        last: Whether nothing is asked after this attempt: brackets then stand, for they may be what was asked for.

    Returns:
        A function of the prediction that raises a `CallError` where its answer says nothing.
    """

    def check(prediction: dspy.Prediction) -> None:
        answer = text_of(prediction.answer)
        empty = says_nothing(answer, numbered=numbered and not choices, brackets=not last)
        if empty and not any(same_answer(answer, one, "choice", choices) for one in choices):
            raise CallError("EmptyAnswerError", "the answer was empty", unusable=True)

    return check


def says_nothing(text: str, *, numbered: bool = False, brackets: bool = True) -> bool:
    """Whether a text is empty but for field markers, fences of code and the announcement of an answer.

    Args:
        text: The text.
        numbered: Whether the numbers of inputs, such as ``[1]``, say nothing either.
        brackets: Whether brackets around nothing say nothing.
    """
    bare = _FENCE.sub("", _MARKER.sub("", text))
    bare = _EMPTY.sub("", bare) if brackets else bare
    bare = _POINTER.sub("", bare) if brackets and numbered else bare
    bare = "\n".join(line for line in bare.splitlines() if not _announces(line))
    return not (bare.strip() if bare == text else bare.strip(_BESIDE))


def _announces(line: str) -> bool:
    """Whether a line says that an answer follows, such as "The answer to the question is:", and no more."""
    words = [word.casefold() for word in _WORD.findall(line)]
    end = len(line)
    while end and not line[end - 1].isalnum():
        end -= 1
    colon = not {":", "："}.isdisjoint(line[end:])
    if words and words[0] in _CHINESE:
        return len(words) == 1 and colon
    said = list(dropwhile(_BEFORE_ANSWER.__contains__, words))
    if said[:1] != ["answer"]:
        return False
    return said[1:] == ["is"] or (said[1:2] in ([], ["to"]) and (colon or said[-1] == "is"))
