"""What every reader of documents gives: text in sections that know where they stand, a title and a date."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from keqa.retrievers.place import LONGEST_HEADING, Place, placed
from keqa.retrievers.readers.common import LONGEST_TITLE
from keqa.retrievers.splitting import split_text
from keqa.retrievers.text import clean_text, one_line

# What programs write where nobody gave a title.
_NO_TITLE = re.compile(
    r"""
    microsoft\ (?:word|excel|powerpoint)\b.* | untitled.* | unbenannt.* | sans\ (?:nom|titre).* | sin\ título.*
    | (?:document|dokument|documento|presentation|präsentation|présentation|presentación|book|mappe|workbook|slide
        |folie|diapositive?|title|titel|文档|演示文稿)[\ _-]?\d*
    | (?:powerpoint[\ -])?(?:presentation|präsentation)
    | .+\.(?:docx?|pptx?|xlsx?|pdf|odt|rtf|tex|dvi|ps|indd|qxd|pmd|html?)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_DATE = re.compile(r"(?:D:)?(\d{4})(?:-?(\d{2})(?:-?(\d{2}))?)?")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a document.

    Attributes:
        text: Its text, with the line breaks that part it from the next.
        heading: What it stands under; may be empty.
        page: Number of its page or slide; None where there are none.
        title: Of its own, where it is a record of a table; may be empty.
    """

    text: str
    heading: str = ""
    page: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was read.

    Attributes:
        title: As its content has it; may be empty.
        sections: In order; together they are its text.
        date: When it was last changed, as it says itself; may be empty.
        records: Whether sections have nothing to do with each other, as rows of a table, and share no passage.
        lost: What of it could not be read although the rest could, and what to do, for the user; may be empty.
    """

    title: str
    sections: Sequence[Section]
    date: str = ""
    records: bool = False
    lost: str = ""

    def passages(self, file: str, words: int) -> Iterator[tuple[str, str, Place]]:
        """Titles (empty where it is the document's), texts and places of its passages.

        Args:
            file: What its places name it.
            words: Target length of a passage.
        """
        sections = [dataclasses.replace(one, text=clean_text(one.text)) for one in self.sections]
        if self.records:
            for section in sections:
                title = one_line(clean_text(section.title))[:LONGEST_TITLE]
                place = self._place(file, section)
                yield from ((title, piece, place) for piece in split_text(section.text, words))
            return
        # White space aside, the passages are the text: a character's number among the others says where it stands.
        ends = list(itertools.accumulate(_characters(section.text) for section in sections))
        start = 0
        for piece in split_text("".join(section.text for section in sections), words):
            size = _characters(piece)
            section = sections[bisect.bisect_right(ends, start + size // 2)]
            yield "", piece, self._place(file, section)
            start += size

    def _place(self, file: str, section: Section) -> Place:
        given = {"file": file, "page": section.page, "heading": section.heading, "date": self.date}
        return placed(given)


def _characters(text: str) -> int:
    return len("".join(text.split()))


def given_title(*candidates: Any) -> str:
    """The first of some titles that a person gave, and no program; empty where there is none.

    Args:
        *candidates: Titles as found, in order of preference.
    """
    for candidate in candidates:
        title = one_line(clean_text(str(candidate or "")[: 4 * LONGEST_TITLE]))[:LONGEST_TITLE]
        if title and not _NO_TITLE.fullmatch(title):
            return title
    return ""


def iso_date(given: object) -> str:
    """The date that something begins with, as ``2024-05-31``, ``2024-05`` or ``2024``; empty where it is none.

    Args:
        given: Text as metadata has it: ISO 8601, or PDF's ``D:20240531``.
    """
    found = _DATE.match(str(given or "")[:40].strip().strip("'\""))
    if found is None:
        return ""
    year, month, day = found.groups()
    try:
        date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return ""
    return "-".join(filter(None, (year, month, day)))


# Line by line, not by patterns over the whole text: what a pattern may match in several ways, it tries in all of them.
def markdown_sections(text: str) -> list[Section]:
    """A text in Markdown, cut before each heading; nothing of it is lost."""
    sections: list[Section] = []
    heading, fence = "", ""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        bare = line.lstrip()
        if bare.startswith(("```", "~~~")):
            fence = "" if bare[:3] == fence else fence or bare[:3]
        found = "" if fence else heading_of(line)
        if found:
            sections.append(Section("".join(lines), heading))
            heading, lines = found[:LONGEST_HEADING], []
        lines.append(line)
    sections.append(Section("".join(lines), heading))
    return [section for section in sections if section.text]


def heading_of(line: str) -> str:
    """The heading that a line of Markdown is; empty where it is none."""
    level = len(line) - len(line.lstrip("#"))
    if not (1 <= level <= 6 and line[level : level + 1].isspace()):
        return ""
    heading = line[level:].strip()
    # Closing hashes stand after a space: those of C# belong to it.
    bare = heading.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else heading
