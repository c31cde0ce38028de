"""Where a passage of another make stands, from what it and its metadata say: a `Place`, as an index of one's own has.

The passage itself, a mapping or an object, may have what a `Place` has under the same names, or a `Place` as ``place``.
In its ``metadata`` these are known under the names that LangChain, LlamaIndex and their readers of documents use, too.
What comes from strangers is taken only where it is a text or a number of a length that such a thing has.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from keqa.retrievers.place import NOWHERE, Place, placed

_NAMES: Final = ("file", "page", "heading", "date")

# The first name that is there counts. A file's name comes before its path, which is of somebody's machine.
_IN_METADATA: Final[Mapping[str, Sequence[str]]] = {
    "file": ("file", "file_name", "filename", "source", "file_path", "path", "url"),
    # LangChain's reader of PDF counts pages from 0, and has what is written on them as the label.
    "page": ("page_label", "page_number", "page"),
    "heading": ("heading", "section", "Header 4", "Header 3", "Header 2", "Header 1"),
    "date": ("date", "last_modified_date", "last_modified", "moddate"),
}
_LONGEST: Final = {"file": 1000, "heading": 300, "date": 40}
_PAGE = re.compile(r"[0-9]{1,8}")
_YEARS = range(1000, 10_000)


def place_beside(item: Any, metadata: Any) -> Place:
    """Where a passage stands.

    Args:
        item: A mapping or an object.
        metadata: What it has as metadata, a mapping; anything else says nothing.

    Returns:
        What is known of its place; each part that is missing or makes no sense is empty.
    """
    whole = _part(item, "place")
    if isinstance(whole, Place):
        return whole
    given = metadata if isinstance(metadata, Mapping) else {}
    found: dict[str, Any] = {}
    for name in _NAMES:
        own = _sound(name, _part(item, name))
        found[name] = own if own is not None else _sound(name, _first(given, _IN_METADATA[name]))
    return placed(found) if any(value is not None for value in found.values()) else NOWHERE


def _part(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _first(given: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first value that is there, which an empty text is not."""
    values = (given.get(name) for name in names)
    return next((value for value in values if value is not None and not (isinstance(value, str) and not value)), None)


def _sound(name: str, value: Any) -> str | int | None:
    """A value where it can be what it is called; None otherwise."""
    if name == "page":
        # Stores that know no whole numbers, such as Pinecone, give 12.0.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str) and _PAGE.fullmatch(value.strip()):
            value = int(value)
        return value if type(value) is int else None
    if name == "date" and isinstance(value, datetime.date):
        return value.isoformat()[:10]
    if name == "date" and type(value) is int and value in _YEARS:
        return str(value)
    # A part of an address or a path would be another one, so what is too long is left out, not cut.
    return value if isinstance(value, str) and len(value) <= _LONGEST[name] else None
