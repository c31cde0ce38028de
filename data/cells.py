"""Several texts that are written in one, as the cells of tables hold lists."""

import ast
import json
import re
from typing import Any, Final

# The escapes are those that Python itself writes.
_ESCAPED: Final = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
_STRING: Final = rf"'(?:[^'\\\n]|{_ESCAPED})*'|\"(?:[^\"\\\n]|{_ESCAPED})*\""
_OTHER: Final = r"[+-]?\d{1,300}(?:\.\d{0,300})?(?:e[+-]?\d{1,3})?|None|nan|True|False"
_ITEM: Final = re.compile(f"{_STRING}|{_OTHER}")
_LIST: Final = re.compile(rf"\[(?:\s*(?:{_ITEM.pattern})(?:\s*,\s*(?:{_ITEM.pattern}))*(?:\s*,)?)?\s*\]")
# NumPy writes no commas, and to Python two strings without one between them are a single string.
_ARRAY: Final = re.compile(rf"\[\s*(?:{_STRING})(?:\s+(?:{_STRING}))*\s*\]")
_NAN: Final = float("nan")


def listed(cell: str) -> list[Any] | None:
    """The list that a cell is as a whole, ``null`` and ``nan`` included; None where it is anything else."""
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
