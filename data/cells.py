"""The cells of a CSV file of questions: several answers in one cell, and whole numbers that pandas wrote as fractions.

A cell of one of the columns with lists is split at ``|``. A cell that is as a whole a list, as JSON or Python writes
one, is that list in any of these columns and in `answer`, for ``DataFrame.to_csv`` writes a list in this way.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

LISTS: Final = ("answers", "choices", "quizzes", "quiz_answers")
"""The columns that hold several values."""

WHOLE: Final = ("answer", "answers")
"""The columns in which whole numbers may have become fractions."""

# The escapes are those that Python itself writes.
_STRING = (
    r"'(?:[^'\\\n]|\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*'"
    r"|\"(?:[^\"\\\n]|\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))*\""
)
_OTHER = r"[+-]?\d{1,300}(?:\.\d{0,300})?(?:e[+-]?\d{1,3})?|None|nan|True|False"
_ITEM = re.compile(f"{_STRING}|{_OTHER}")
_LIST = re.compile(rf"\[(?:\s*(?:{_ITEM.pattern})(?:\s*,\s*(?:{_ITEM.pattern}))*(?:\s*,)?)?\s*\]")
# NumPy writes no commas, and to Python two strings without one between them are a single string.
_ARRAY = re.compile(rf"\[\s*(?:{_STRING})(?:\s+(?:{_STRING}))*\s*\]")
_NAN: Final = float("nan")

_FRACTION = re.compile(r"-?[0-9]{1,15}\.0")


def values_of(column: str, cell: str) -> Any:
    """What a cell that is not empty says."""
    if column != "answer" and column not in LISTS:
        return cell
    found = listed(cell)
    if found is not None:
        return found
    return cell.split("|") if column in LISTS else cell


def listed(cell: str) -> list[Any] | None:
    """The list of texts and numbers that a cell is as a whole; None where it is anything else.

    What is missing in the list, as ``null`` and ``nan``, stays in it, so that it is refused by its place.
    """
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return found if all(one is None or isinstance(one, str | int | float) for one in found) else None
    if _LIST.fullmatch(text) is None and _ARRAY.fullmatch(text) is None:
        return None
    try:
        return [_NAN if one == "nan" else ast.literal_eval(one) for one in _ITEM.findall(text)]
    except (ValueError, SyntaxError):
        return None


def fractions_of_wholes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> set[str]:
    """The columns of answers in which pandas wrote whole numbers as fractions, such as ``1871.0``.

    It does so where a number of the column is missing, for a whole number of its cannot be. So these are the columns of
    which a cell is empty and every other one ends in ``.0``; elsewhere a fraction is what somebody wrote.
    """
    left = {name: place for place, name in enumerate(header) if name in WHOLE}
    empty: set[str] = set()
    filled: set[str] = set()
    for row in rows:
        for name, place in list(left.items()):
            cell = row[place].strip()
            (filled if cell else empty).add(name)
            if cell and _FRACTION.fullmatch(cell) is None:
                del left[name]
        if not left:
            break
    return {name for name in left if name in empty and name in filled}
