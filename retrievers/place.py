"""Where in somebody's files a passage stands, as a source of an answer names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from keqa.retrievers.text import clean_text, one_line

LONGEST_HEADING: Final = 300
"""The most characters of a heading: it is repeated in every passage below it."""

_LONGEST_FILE = 1000
_LONGEST_DATE = 40
_LAST_PAGE = 10_000_000
# What the parts of such a file are called.
_PARTS: Final = {".pptx": "slide"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a passage stands. Nothing in it is searched.

    Attributes:
        file: The file, as its path below the folder that was indexed; empty where the passage is a record.
        page: Number of the page on which its middle stands, from 1, or of the slide; None where there are none.
        heading: The last heading before its middle; may be empty.
        date: When the document was last changed, as it says itself, such as ``2024-05-31``; may be empty.
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
    """The place that an index keeps. What in it is no place is passed over: an index may come from anywhere.

    Args:
        text: What `Place.packed` gave.
    """
    if not text:
        return NOWHERE
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return NOWHERE
    return placed(found) if isinstance(found, Mapping) else NOWHERE


def placed(given: Mapping[str, Any]) -> Place:
    """A place as it can be kept and shown.

    Args:
        given: Values by the names of its attributes; those of the wrong type are passed over.
    """
    page = given.get("page")
    return Place(
        file=_line(given.get("file"), _LONGEST_FILE),
        page=page if type(page) is int and 0 < page <= _LAST_PAGE else None,
        heading=_line(given.get("heading"), LONGEST_HEADING),
        date=_line(given.get("date"), _LONGEST_DATE),
    )


def _line(value: Any, longest: int) -> str:
    return one_line(clean_text(value[: 4 * longest]))[:longest] if isinstance(value, str) else ""
