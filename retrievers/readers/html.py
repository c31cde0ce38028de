"""The title and the text of an HTML page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from keqa.retrievers.base import LONGEST_HEADING, Notice
from keqa.retrievers.readers.common import RefusedError, bom_encoding, decode, decode_declared
from keqa.retrievers.readers.document import ReadDocument, ReadSection, given_title, iso_date
from keqa.retrievers.text import one_line

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement, Tag

# Elements whose content is not the document's text, such as the kana above Japanese, which would break its words. The
# head is none of them: its end may be left out, and the parser then puts the page into it.
_NOT_TEXT: Final = frozenset(("script", "style", "noscript", "template", "nav", "svg", "rt", "rp"))
# Those of them that take in the rest of a page where they are not closed; scripts and styles do so in browsers as well.
_CLOSED: Final = ("noscript", "template", "nav", "svg")
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_BLOCKS: Final = _HEADINGS.union(
    """
    address article aside blockquote body br caption center dd details dialog div dl dt fieldset figcaption figure
    footer form head header hgroup hr legend li main menu ol optgroup p pre search section summary table tbody td tfoot
    th thead title tr ul
    """.split()
)
# Where rows and cells begin and end, until all of a row is known; no text has such characters.
_CELLS: Final = {"tr": "\x01", "td": "\x02", "th": "\x03"}
# Where an item of a list begins, whose text may be in a block of its own; and what fences code.
_ITEM: Final = re.compile("(?:\x04\\s*)+(?=\\S)")
_OPENING: Final = {"li": "\n\n\x04", "pre": "\n\n```\n"}
_CLOSING: Final = {"pre": "\n```\n\n"}
# Ends a paragraph, and in a cell only a line.
_BROKEN: Final = " \n \n "
_CELL: Final = re.compile("([\x03\x02])([^\x03\x02]*)[\x03\x02]\\s*")
# What stands apart in a line.
_APART: Final = frozenset(("button", "label", "meter", "option", "output", "progress", "select", "textarea"))
# What pages call the date on which they were changed, or else published.
_DATES: Final = """
    article:modified_time last-modified dcterms.modified article:published_time date dcterms.date dc.date
""".split()
# So many parts of a heading are read.
_PARTS: Final = 50
# So many cells of a page that span rows or columns are repeated.
_MOST_REPEATED: Final = 20_000
# So many bytes of a page may say what it is in.
_DECLARED: Final = 4096


def read_html(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """A page, with an empty line between blocks."""
    from bs4 import BeautifulSoup, XMLParsedAsHTMLWarning
    from bs4.dammit import EncodingDetector
    from bs4.exceptions import ParserRejectedMarkup

    declared = EncodingDetector.find_declared_encoding(data[:_DECLARED], is_html=True)
    text = _decoded(data, declared or "", path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", XMLParsedAsHTMLWarning)
        try:
            # That of the standard library looks through the rest of a page again at each comment that does not end.
            soup = BeautifulSoup(text, "lxml")
        except (ValueError, ParserRejectedMarkup) as error:
            raise RefusedError("damaged", str(error)) from error
    repeat_spanning_cells(soup)
    titles = (found.get_text(" ") for found in (soup.title, soup.find("h1")) if found)
    parts: list[tuple[str, int, list[str]]] = [("", 0, [])]
    for piece, heading, level in _pieces(soup, _NOT_TEXT.difference(_never_closed(soup, text))):
        if heading:
            parts.append((heading, level, []))
        parts[-1][2].append(piece)
    sections = [
        ReadSection(_ITEM.sub("- ", "".join(map(_row, "".join(pieces).split("\x01")))), heading, level=level)
        for heading, level, pieces in parts
    ]
    return ReadDocument(given_title(*titles), [one for one in sections if one.text.strip()], _date(soup))


def repeat_spanning_cells(page: BeautifulSoup) -> None:
    """Have a cell that spans rows or, beside others, columns in each of them, or what is left would move under others.

    What it repeats is the text of a cell, up to the length of a heading.
    """
    from bs4.element import Tag

    spanning: dict[int, dict[int, tuple[int, Tag]]] = {}
    repeated = 0
    for row in page.find_all("tr"):
        # No cell spans more than the head or the body of a table.
        above: dict[int, tuple[int, Tag]] = spanning.get(id(row.parent), {})
        below: dict[int, tuple[int, Tag]] = {}
        alone = len(row.find_all(("td", "th"), recursive=False)) == 1 and not above
        # Inserted one by one, each would be looked for in all of the row.
        line: list[PageElement] = []
        place = 0
        for one in (*row.contents, None):
            if one is not None and not (isinstance(one, Tag) and one.name in ("td", "th")):
                line.append(one)
                continue
            while place in above and repeated < _MOST_REPEATED:
                rows, cell = above[place]
                line.append(page.new_tag(cell.name, string=_heading(cell)))
                below |= {place: (rows - 1, cell)} if rows > 1 else {}
                place, repeated = place + 1, repeated + 1
            if one is not None:
                rows, columns = _span(one, "rowspan"), _span(one, "colspan")
                columns = 1 if alone or repeated >= _MOST_REPEATED else columns
                line += [one, *(page.new_tag(one.name, string=_heading(one)) for _ in range(1, columns))]
                below |= dict.fromkeys(range(place, place + columns), (rows - 1, one)) if rows > 1 else {}
                place, repeated = place + columns, repeated + columns - 1
                if columns > 1:
                    del one["colspan"]
        if len(line) > len(row.contents):
            row.clear()
            row.extend(line)
        spanning[id(row.parent)] = below


def _span(cell: Tag, name: str) -> int:
    given = re.match(r"\s*\d{1,4}", str(cell.get(name, "")))
    return max(1, int(given[0])) if given else 1


def _decoded(data: bytes, declared: str, path: Path) -> str:
    """A page as its byte order mark says, or as it says itself."""
    text = decode_declared(data, declared) if bom_encoding(data) is None else None
    # Pages have said nothing of their encoding for as long as there are any, so nobody is told.
    return decode(data, str(path), lambda text: None).removeprefix("\ufeff") if text is None else text


def _heading(element: Tag) -> str:
    """The text of a heading: that of its first parts, as headings may be nested as deeply as anything else."""
    from bs4.element import NavigableString, PreformattedString, Tag

    # Not by `descendants`, which looks first for where they end, each time down to the bottom.
    parts, waiting, left = [], [*element.contents[_PARTS::-1]], _PARTS
    while waiting and left:
        one, left = waiting.pop(), left - 1
        if isinstance(one, Tag):
            waiting += [] if one.name in _NOT_TEXT else one.contents[_PARTS::-1]
        elif isinstance(one, NavigableString) and not isinstance(one, PreformattedString):
            parts.append(one[: 4 * LONGEST_HEADING])
    return one_line(" ".join(parts))[:LONGEST_HEADING]


def _row(text: str) -> str:
    """A row of a table in Markdown, unless it is laid out as one: then its cells are paragraphs, as what is no row."""
    cells = [(mark, cell.strip()) for mark, cell in _CELL.findall(text)]
    if len(cells) > 1 and not any(cell for _, cell in cells):
        return ""
    if len(cells) < 2 or _CELL.sub("", text).strip() or any("\n\n" in cell for _, cell in cells):
        return re.sub("[\x03\x02]", "\n\n", text) + "\n"
    below = f"|{'---|' * len(cells)}\n" if all(mark == "\x03" for mark, _ in cells) else ""
    return f"| {' | '.join(one_line(cell) for _, cell in cells)} |\n{below}"


def _date(page: BeautifulSoup) -> str:
    named: dict[str, object] = {}
    for meta in page.find_all("meta"):
        named.setdefault(str(meta.get("property") or meta.get("name")).lower(), meta.get("content"))
    return next(filter(None, (iso_date(named.get(name)) for name in _DATES)), "")


def _is_title(element: Tag) -> bool:
    """Whether an element is the title of the page, where it stands in the head, whose tags may be left out."""
    return element.name == "title" and getattr(element.parent, "name", "") in ("head", "html", "[document]")


def _never_closed(page: BeautifulSoup, text: str) -> list[str]:
    """Which elements of `_CLOSED` a page opens more often than it closes, so that they hold more than is theirs."""
    ends = {one: rf"</{one}(?=[\s/>])|<{one}(?=[\s/])[^<>]*/>" for one in _CLOSED}
    return [one for one in _CLOSED if len(page.find_all(one)) > len(re.findall(ends[one], text, re.IGNORECASE))]


def _pieces(page: PageElement, passed_over: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """The text of a page in order, with the heading that begins there and its level; elements may be nested deeply."""
    from bs4.element import PreformattedString, Tag

    waiting: list[PageElement | str] = [page]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Tag):
            if one.name in passed_over or _is_title(one):
                continue
            block = _BROKEN if one.name == "br" else _CELLS.get(one.name, "\n\n")
            around = block if one.name in _BLOCKS else " " if one.name in _APART else ""
            waiting += [_CLOSING.get(one.name, around), *reversed(one.contents)]
            yield _OPENING.get(one.name, around), "", 0
            if one.name in _HEADINGS:
                yield "", _heading(one), int(one.name[1])
        elif not isinstance(one, PreformattedString):
            yield str(one), "", 0
