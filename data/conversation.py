"""The turns before a follow-up question, as lines that a prompt can carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from keqa.data.question import check_text, clean
from keqa.errors import InputError

MOST_TURNS = 10
"""So many turns are read, the last ones."""

_LONGEST = 500
"""Of a question or an answer before, so many characters are read."""


def turns(history: object) -> list[str]:
    """The earlier questions in their order, each with its answer, on a line each.

    Args:
        history: The turns: each a line that holds both, a pair of question and answer, or a mapping with ``question``
            and ``answer``, whose answer may be missing. Also a ``dspy.History`` of such mappings.

    Returns:
        The last `MOST_TURNS`, without those that are empty.

    Raises:
        InputError: It is something else.
    """
    given = getattr(history, "messages", history)
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise InputError(f"history must be a list of earlier questions with their answers, not {type(given).__name__}")
    return [line for line in map(_line, given[-MOST_TURNS:]) if line]


def _line(turn: object) -> str:
    if isinstance(turn, str):
        return clean(turn)[: 2 * _LONGEST]
    if isinstance(turn, Mapping):
        question, answer = turn.get("question"), turn.get("answer")
    elif isinstance(turn, Sequence) and len(turn) == 2:
        question, answer = turn
    else:
        raise InputError(
            "a turn of history must be a line, a question with its answer, or a mapping with question and answer"
        )
    asked = check_text(question, "question in history")
    replied = "" if answer is None or answer == "" else check_text(answer, "answer in history")
    return f"{asked[:_LONGEST]} {replied[:_LONGEST]}".strip()
