"""What every reader of documents gives: text in sections that know where they stand, a title and a date."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from keqa.retrievers.base import LONGEST_HEADING, Place, placed
from keqa.retrievers.readers.common import LONGEST_TITLE, plain_stem
from keqa.retrievers.readers.dates import date_in_name, stated_date, year_in_name
from keqa.retrievers.splitting import split_text
from keqa.retrievers.text import WORD_LENGTH, clean_text, one_line, text_length

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
# So much of a section may say of what date it is.
_SECTION_HEAD = 400
# What has no more words goes with the first passage.
_SHORT = 50
_TOP, _TOP_SECTIONS = 4000, 50
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
        date: When it was last changed, as its properties say; may be empty.
        front: Of what date it is, as its front matter or the head of a message says; may be empty.
        about: What is said of it as a whole, such as its author, and stands nowhere in it; may be empty.
        records: Whether sections have nothing to do with each other, as rows of a table, and share no passage.
        lost: What of it could not be read although the rest could, and what to do, for the user; may be empty.
    """

    title: str
    sections: Sequence[Section]
    date: str = ""
    front: str = ""
    about: str = ""
    records: bool = False
    lost: str = ""

    def passages(self, file: str, words: int) -> Iterator[tuple[str, str, Place]]:
        """Titles (empty where it is the document's), texts and places of its passages.

        A passage is of one section, so that it has one page and one heading, which stands in a line of its own before
        the first passage under it, as in Markdown. Where nothing follows a heading on its page, it goes with the next.
        """
        cut: list[tuple[str, list[str], Section]] = []
        about = clean_text(self.about).strip()
        is_short = text_length(about) <= _SHORT * WORD_LENGTH
        above = [about] if about and is_short else []
        for section in self.sections if is_short else (Section(about), *self.sections):
            if above and cut and cut[-1][2].page != section.page:
                cut[-1][1].append("\n".join(above))
                above = []
            text = clean_text(section.text)
            lead, body = ("", text) if self.records else _lead(text, section.heading)
            pieces = split_text(body, words)
            above += [lead] if lead else []
            if pieces and above:
                pieces[0], above = "\n".join([*above, pieces[0]]), []
            cut.append((text, pieces, section))
        if above and cut:
            # Headings at the end go with what stands before them.
            same = [pieces for _, pieces, section in cut if pieces and section.page == cut[-1][2].page]
            pieces = same[-1] if same else cut[-1][1]
            pieces[-1:] = ["\n".join([*pieces[-1:], *above])]
        date_of = self._dates(file)
        for text, pieces, section in cut:
            title = one_line(clean_text(section.title))[:LONGEST_TITLE]
            date = date_of(text)
            given = {"file": file, "page": section.page, "heading": section.heading, "date": date}
            place = placed(given)
            yield from ((title, piece, place) for piece in pieces)

    def _dates(self, file: str) -> Callable[[str], str]:
        """What gives the date of a section of some text."""
        stem = plain_stem(Path(file))
        if given := self.front or date_in_name(stem):
            return lambda text: given
        if self.records:
            # What stands above the head of a table is in the heading; a column of dates is not the table's.
            top = next((section.heading for section in self.sections), "")
        else:
            top = "\n".join(section.text[:_TOP] for section in self.sections[:_TOP_SECTIONS])
        whole = stated_date(clean_text(top[:_TOP])) or year_in_name(stem) or self.date
        return lambda text: (not self.records and stated_date(text[:_SECTION_HEAD])) or whole


def _lead(text: str, heading: str) -> tuple[str, str]:
    """The heading that a section begins with, as a line of Markdown, and the rest; empty where it begins otherwise."""
    text = text.lstrip()
    first, _, rest = text.partition("\n")
    if heading_of(first):
        return one_line(first), rest
    wanted, end = "".join(heading.split()), 0
    # White space may be elsewhere in it there.
    letters = (place for place, one in enumerate(text) if not one.isspace())
    for one in wanted:
        place = next(letters, len(text))
        if text[place : place + 1] != one:
            return "", text
        end = place + 1
    # A heading that goes on, as one that is never closed does, is text.
    ended = wanted and not text[end:].partition("\n")[0].strip()
    return (f"# {heading}", text[end:]) if ended else ("", text)


def given_title(*candidates: Any) -> str:
    """The first of some titles that a person gave, and no program; empty where there is none."""
    for candidate in candidates:
        title = one_line(clean_text(str(candidate or "")[: 4 * LONGEST_TITLE]))[:LONGEST_TITLE]
        if title and not _NO_TITLE.fullmatch(title):
            return title
    return ""


def iso_date(given: object) -> str:
    """The date that something begins with, as ``2024-05-31``, ``2024-05`` or ``2024``; empty where it is none."""
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
