"""Where in somebody's files a passage stands, as a source of an answer names it.

A passage of another make, a mapping or an object, may have what a `Place` has under the same names, or a `Place` as
``place``. In its ``metadata`` these are known under the names that LangChain, LlamaIndex and their readers of documents
use, too. What comes from strangers is taken only where it is a text or a number of a length that such a thing has.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from keqa.retrievers.text import clean_text, one_line

LONGEST_HEADING: Final = 300
"""The most characters of a heading: it is repeated in every passage below it."""

_LONGEST: Final = {"file": 1000, "heading": LONGEST_HEADING, "date": 40}
_LAST_PAGE = 10_000_000
# What the parts of such a file are called.
_PARTS: Final = {".pptx": "slide"}

# The first name that is there counts. A file's name comes before its path, which is of somebody's machine.
_IN_METADATA: Final[Mapping[str, Sequence[str]]] = {
    "file": ("file", "file_name", "filename", "source", "file_path", "path", "url"),
    # LangChain's reader of PDF counts pages from 0, and has what is written on them as the label.
    "page": ("page_label", "page_number", "page"),
    "heading": ("heading", "section", "Header 4", "Header 3", "Header 2", "Header 1"),
    "date": ("date", "last_modified_date", "last_modified", "moddate"),
}
_PAGE = re.compile(r"[0-9]{1,8}")
_YEARS = range(1000, 10_000)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands. Nothing in it is searched.

    Attributes:
        file: The file, as its path below the folder that was indexed; empty where the passage is a record.
        page: Number of the page on which it stands, from 1, or of the slide; None where there are none.
        heading: The last heading before it; may be empty.
        date: Of what date it is, as its document says, such as ``2024-05-31`` or ``2024-05``; may be empty.
    """

    file: str = ""
    page: int | None = None
    heading: str = ""
    date: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.page is not None or self.heading or self.date)

    @property
    def part(self) -> str:
        """The page or slide in words, such as ``page 3``; empty where there is none."""
        if self.page is None:
            return ""
        suffix = self.file[self.file.rfind(".") :].lower()
        return f"{_PARTS.get(suffix, 'page')} {self.page}"

    def __str__(self) -> str:
        """In words, such as ``report.pdf, page 3, Results``."""
        return ", ".join(filter(None, (self.file, self.part, self.heading)))

    def packed(self) -> str:
        """The place as an index keeps it; empty where there is nothing to keep."""
        given = {"file": self.file, "page": self.page, "heading": self.heading, "date": self.date}
        kept = {name: value for name, value in given.items() if value not in ("", None)}
        return json.dumps(kept, ensure_ascii=False) if kept else ""


NOWHERE: Final = Place()
"""Of a passage that is a record, or comes from a program."""


def unpacked(text: str) -> Place:
    """The place that an index keeps. What in it is no place is passed over: an index may come from anywhere."""
    if not text:
        return NOWHERE
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return NOWHERE
    return placed(found) if isinstance(found, Mapping) else NOWHERE


def placed(given: Mapping[str, Any]) -> Place:
    """A place as it can be kept and shown."""
    page = given.get("page")
    return Place(
        file=_line(given, "file"),
        page=page if type(page) is int and 0 < page <= _LAST_PAGE else None,
        heading=_line(given, "heading"),
        date=_line(given, "date"),
    )


def _line(given: Mapping[str, Any], name: str) -> str:
    value, longest = given.get(name), _LONGEST[name]
    return one_line(clean_text(value[: 4 * longest]))[:longest] if isinstance(value, str) else ""


def place_beside(item: Any, metadata: Any) -> Place:
    """Where a passage stands."""
    whole = _part(item, "place")
    if isinstance(whole, Place):
        return whole
    given = metadata if isinstance(metadata, Mapping) else {}
    found: dict[str, Any] = {}
    for name in _IN_METADATA:
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
