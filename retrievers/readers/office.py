"""Word, PowerPoint, Excel, OpenDocument and EPUB, by libraries that build the whole document in memory."""

import datetime
import io
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from html import escape
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from keqa.retrievers.base import Notice, default_notice
from keqa.retrievers.readers.common import DENSEST, MAX_DOCUMENT, MOST_TEXT, SMALL, RefusedError, allow
from keqa.retrievers.readers.document import (
    ReadDocument,
    ReadSection,
    first_heading,
    given_title,
    iso_date,
    markdown_sections,
)
from keqa.retrievers.readers.html import read_html, repeat_spanning_cells
from keqa.retrievers.readers.tables import table_sections

_MOST_ENTRIES: Final = 20_000
_OLE: Final = b"\xd0\xcf\x11\xe0"
_ENTITIES: Final = tuple("<!ENTITY".encode(code) for code in ("utf-8", "utf-16-le", "utf-16-be"))
# As much as other readers of XML allow.
_DEEPEST: Final = 256
_LAST_ROW: Final = 1_048_576
# In the format of a cell: what is only as wide or filled, a text, one character, a currency with a language, one alone.
_LITERAL: Final = re.compile(r'[_*].|"([^"]*)"|\\(.)|\[\$([^\]-]*)[^\]]*\]|([$€£¥])')
_UNIT: Final = re.compile(r"[^\s\d:;()+-]{1,10}")
# A comma after the figures divides the number.
_DIVIDED: Final = re.compile(r"[0#?],+(?![,0#?])")
_DECIMALS: Final = re.compile(r"\.([0#?]*)")
_MOST_SHARE: Final = 10**12
_MERGED: Final = re.compile(rb'<(?:\w+:)?mergeCell\s+ref="([A-Z]{1,3}\d{1,7}:[A-Z]{1,3}\d{1,7})"')
_FORMULA: Final = re.compile(rb"<(?:\w+:)?f[\s/>]")
_SLIDE: Final = re.compile(r"<!-- Slide number: (\d+) -->\n?")
_PICTURE: Final = re.compile(r"!\[([^\]\n]{0,500})\]\([^)\n]{0,2000}\)")
# An asterisk of the text is escaped, and that of a list has a space behind it.
_SLANTED: Final = re.compile(r"(?<!\\)\*(?=\S)([^*\n]+)(?<!\\)\*")
# A head that nobody marked is an empty row to the converter; the first row is read as one.
_NO_HEAD: Final = re.compile(r"^\|[| ]*\|\n(\|[-| ]+\|)\n(\|.*\|)$", re.MULTILINE)
_AS_HTML: Final = {
    **{"p": "p", "list": "ul", "list-item": "li", "table": "table", "table-row": "tr"},
    **dict.fromkeys(("table-cell", "covered-table-cell"), "td"),
}
_MOST_REPEATED: Final = 100
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_Spans = dict[int, list[tuple[int, int, int]]]
Converter = Callable[[bytes, Path, str, str], ReadDocument]
_E_BOOK: Final = re.compile(r"\*\*(Title|Authors|Publisher|Date|Language|Description|Identifier):\*\* ?(.*)")


def _read(convert: Converter, suffix: str, data: bytes, path: Path, notice: Notice) -> ReadDocument:
    allow(_unpacked_size(data, suffix))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        _refuse_hostile(archive, nested=suffix not in (".docx", ".odt", ".ods"))
        stated, changed = ("", "") if suffix == ".epub" else _properties(archive)
    return convert(data, path, stated, iso_date(changed))


def _unpacked_size(data: bytes, suffix: str) -> int:
    """What an archive says that it unpacks to. No more is ever unpacked than it says."""
    if data.startswith(_OLE):
        what = f"it is in the format of before 2007, or protected by a password: save it as {suffix} without one"
        raise RefusedError("protected or of an old format", what)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise RefusedError("damaged", str(error)) from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise RefusedError("protected by a password", "it is protected by a password")
    size = sum(entry.file_size for entry in entries)
    dense = size > SMALL and size > DENSEST * len(data)
    if size > MAX_DOCUMENT or len(entries) > _MOST_ENTRIES or dense:
        claimed = f"{size:,} bytes in {len(entries):,} files from {len(data):,} bytes"
        raise RefusedError("too large", f"it unpacks to {claimed}, more than is read")
    return size


def _refuse_hostile(archive: zipfile.ZipFile, *, nested: bool) -> None:
    """Refuse entities, which can stand for gigabytes, and, but for `nested`, what takes the square of its depth."""
    for entry in archive.infolist():
        # Whatever it is called: what a part is, the document says elsewhere.
        content = archive.read(entry)
        if any(entity in content for entity in _ENTITIES):
            raise RefusedError("damaged", f"it declares XML entities ({entry.filename[:100]})")
        if not nested and _is_deep(content):
            raise RefusedError("damaged", f"its elements are nested more than {_DEEPEST} deep")


def _is_deep(content: bytes) -> bool:
    depth = deepest = 0

    def move(by: int) -> None:
        nonlocal depth, deepest
        depth += by
        deepest = max(depth, deepest)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = lambda name, given: move(1), lambda name: move(-1)
    # What is no XML, such as a picture, is none at its first byte.
    with suppress(expat.ExpatError):
        parser.Parse(content, True)
    return deepest > _DEEPEST


def _properties(archive: zipfile.ZipFile) -> tuple[str, str]:
    """The title and the date of an Office document, as its properties have them."""
    from defusedxml.ElementTree import fromstring

    if "docProps/core.xml" not in archive.namelist():
        return "", ""
    core = fromstring(archive.read("docProps/core.xml"))
    named = {_name(element): element.text or "" for element in core}
    return named.get("title", ""), named.get("modified") or named.get("created", "")


def _name(element: Any) -> str:
    return str(element.tag.rpartition("}")[2])


def _markdown(converter: str, suffix: str, data: bytes) -> str:
    from bs4 import BeautifulSoup
    from markitdown import StreamInfo, converters

    class Repeating(converters.HtmlConverter):
        """Converts pages, which is what a document becomes first, with cells that span others in all of these."""

        def convert(self, file_stream: Any, stream_info: Any, **options: Any) -> Any:
            if b"span=" in (content := file_stream.read()):
                page = BeautifulSoup(content, "html.parser", from_encoding=stream_info.charset)
                repeat_spanning_cells(page)
                content = page.encode(stream_info.charset or "utf-8")
            return super().convert(io.BytesIO(content), stream_info, **options)

    made = getattr(converters, converter)()
    made._html_converter = Repeating()
    return str(made.convert(io.BytesIO(data), StreamInfo(extension=suffix)).markdown)


def _word(data: bytes, path: Path, stated: str, date: str) -> ReadDocument:
    sections = markdown_sections(_plain(_markdown("DocxConverter", ".docx", data)))
    return ReadDocument(given_title(stated, first_heading(sections)), sections, date)


def _slides(data: bytes, path: Path, stated: str, date: str) -> ReadDocument:
    _, *parts = _SLIDE.split(_markdown("PptxConverter", ".pptx", data))
    sections = []
    for number, text in zip(parts[::2], parts[1::2], strict=True):
        text = _PICTURE.sub(r"\1", text).strip() + "\n\n"
        title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")
        sections.append(ReadSection(text, title, int(number)))
    return ReadDocument(given_title(stated, first_heading(sections)), sections, date)


def _book(data: bytes, path: Path, stated: str, date: str) -> ReadDocument:
    markdown = _markdown("EpubConverter", ".epub", data)
    head, _, body = markdown.partition("\n\n")
    entries = filter(None, map(_E_BOOK.fullmatch, head.splitlines()))
    about = {str(entry[1]): str(entry[2]) for entry in entries}
    sections = markdown_sections(_plain(body if about else markdown))
    # Who wrote it is asked for as well.
    by = ", ".join(filter(None, (about.get("Title"), about["Authors"]))) if about.get("Authors") else ""
    title = given_title(about.get("Title", ""), first_heading(sections))
    return ReadDocument(title, sections, iso_date(about.get("Date", "")), about=by)


def _open_text(data: bytes, path: Path, stated: str, date: str) -> ReadDocument:
    """A text in OpenDocument, by way of a page."""
    body, title, changed = _open_document(data)
    page = read_html(_page_of(body).encode(), path, default_notice)
    return ReadDocument(given_title(title, page.title), page.sections, changed)


def _open_sheets(data: bytes, path: Path, stated: str, date: str) -> ReadDocument:
    body, title, changed = _open_document(data)
    # A chart has a table of its own, below a cell.
    sheets = body.findall(".//{*}spreadsheet/{*}table")
    sections: list[ReadSection] = []
    for sheet in sheets:
        named = "" if len(sheets) == 1 else _given(sheet, "name")
        sections += table_sections(_open_rows(sheet), named)[0]
    return ReadDocument(given_title(title), sections, changed, records=True)


def _open_rows(sheet: Any) -> Iterator[list[str]]:
    # By column, how many rows below have the same cell.
    spanning: dict[int, tuple[int, str]] = {}
    blank = 0
    for row in sheet.iterfind(".//{*}table-row"):
        cells: list[str] = []
        for cell in row:
            # Empty cells up to the last column are one that is repeated.
            count = min(int(_given(cell, "number-columns-repeated") or 1), _MOST_REPEATED)
            text = " ".join("".join(part.itertext()) for part in cell if _name(part) == "p")
            left = int(_given(cell, "number-rows-spanned") or 1)
            if _name(cell) == "covered-table-cell":
                left, text = spanning.get(len(cells), (0, ""))
            spanning[len(cells)] = (left - 1, text) if left > 1 else (0, "")
            cells += [text] * count
        again = int(_given(row, "number-rows-repeated") or 1)
        if not any(cells):
            # Those at the end go down to the last row of a sheet.
            blank = min(blank + again, _LAST_ROW)
            continue
        yield from repeat([""], blank)
        yield from repeat(cells, min(again, _MOST_REPEATED))
        # Rows that are not read count as well.
        blank = max(again - _MOST_REPEATED, 0)


def _open_document(data: bytes) -> tuple[Any, str, str]:
    """The content of a document in OpenDocument, its title and its date."""
    from defusedxml.ElementTree import fromstring

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        content = fromstring(archive.read("content.xml"))
        about = fromstring(archive.read("meta.xml")).iter() if "meta.xml" in archive.namelist() else ()
    named = {_name(element): element.text or "" for element in about}
    return content, named.get("title", ""), iso_date(named.get("date") or named.get("creation-date"))


def _given(element: Any, name: str) -> str:
    return next((str(value) for key, value in element.items() if key.endswith(f"}}{name}")), "")


def _page_of(element: Any) -> str:
    """An element of OpenDocument as one of HTML; the first row of a table is its head, as in Word."""
    name = _name(element)
    if name in ("tracked-changes", "annotation", "note-citation"):
        return ""
    if name == "note-body":
        return escape(f" ({' '.join(''.join(element.itertext()).split())})")
    inside = escape(element.text or "") + "".join(_page_of(one) + escape(one.tail or "") for one in element)
    if name in ("s", "tab", "line-break"):
        return " "
    if name == "table":
        first, end, rest = inside.partition("</tr>")
        inside = first.replace("<td>", "<th>").replace("</td>", "</th>") + end + rest
    level = min(int(_given(element, "outline-level") or 1), 6) if name == "h" else 0
    tag = f"h{level}" if level else _AS_HTML.get(name)
    return f"<{tag}>{inside}</{tag}>" if tag else inside


def _sheets(data: bytes, path: Path, stated: str, date: str) -> ReadDocument:
    from openpyxl import load_workbook

    book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sections: list[ReadSection] = []
    size = 0

    def rows(sheet: Any, spans: _Spans) -> Iterator[list[str]]:
        nonlocal size
        held: dict[int, tuple[int, str]] = {}
        # Rows that are passed over are given as empty ones, however many a file claims that there are.
        for number, row in enumerate(sheet.iter_rows(), start=1):
            if number > _LAST_ROW:
                raise RefusedError("damaged", f"a sheet claims more than {_LAST_ROW:,} rows")
            cells = [_cell(cell) for cell in row]
            below = (one for one in spans.get(number, ()) if one[2] > number)
            held |= {at: (end, cells[at]) for at, _, end in below if at < len(cells)}
            for at, (end, text) in held.items() if any(cells) else ():
                if number <= end and at < len(cells):
                    cells[at] = text
            size += sum(map(len, cells))
            if size > MOST_TEXT:
                raise RefusedError("too large", f"its cells have more than {MOST_TEXT:,} characters: divide it")
            yield cells

    for sheet in book.worksheets:
        spans, named = _spans(sheet), "" if len(book.worksheets) == 1 else str(sheet.title)
        sections += table_sections(_one_head(rows(sheet, spans), spans), named)[0]
    count = _formulas_without_value(data)
    counted, have, were = ("1 formula", "has", "was") if count == 1 else (f"{count:,} formulas", "have", "were")
    warning = (
        f"{counted} of {path} {have} no stored value and {were} left out: open it in Excel or LibreOffice and save it"
    )
    lost = warning if count else ""
    return ReadDocument(given_title(stated), sections, date, records=True, lost=lost)


def _spans(sheet: Any) -> _Spans:
    """By row, where cells begin that span several, each with its first and last column and last row."""
    from openpyxl.utils.cell import range_boundaries

    found: _Spans = {}
    with sheet._get_source() as source:
        merged = _MERGED.findall(source.read())
    for left, top, right, bottom in (range_boundaries(one.decode()) for one in merged):
        found.setdefault(top, []).append((left - 1, right - 1, bottom))
    return found


def _one_head(rows: Iterator[list[str]], spans: _Spans) -> Iterator[list[str]]:
    """The rows of a sheet, whose head is one: “First half” that spans “Q1” and “Q2” stands with both."""
    for first in enumerate(rows, start=1):
        if sum(map(bool, first[1])) > 1:
            break
        yield first[1]
    else:
        return
    number, cells = first
    while wide := [(left, right + 1) for left, right, _ in spans.get(number, ()) if any(cells[left:right])]:
        below = next(rows, [])
        beside = {*range(len(cells))}.difference(*(range(left, end) for left, end in wide))
        # A first row of data has values of its own beside them.
        other = any(one and cells[at] not in ("", one) for at, one in enumerate(below) if at in beside)
        if other or any(sum(map(bool, below[left:end])) < 2 for left, end in wide):
            yield cells
            cells = below
            break
        for left, end in wide:
            cells[left:end] = [cells[left]] * (end - left)
        yield []
        pairs = zip_longest(cells, below, fillvalue="")
        number, cells = number + 1, [" ".join(dict.fromkeys(filter(None, pair))) for pair in pairs]
    yield cells
    yield from rows


def _formulas_without_value(data: bytes) -> int:
    """How many cells have a formula and not what it comes to: they are empty to openpyxl, so the XML is read."""
    from defusedxml.ElementTree import iterparse

    count = 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if not (name.startswith("xl/worksheets/") and name.endswith(".xml")):
                continue
            content = archive.read(name)
            if not _FORMULA.search(content.replace(b"\0", b"")):
                continue
            for _, element in iterparse(io.BytesIO(content)):
                tag = _name(element)
                if tag == "c":
                    inside = {_name(child): child.text for child in element}
                    # A formula may come to an empty text.
                    empty_text = "v" in inside and element.get("t") == "str"
                    count += "f" in inside and not inside.get("v") and not empty_text
                elif tag == "row":
                    element.clear()
    return count


def _cell(cell: Any) -> str:
    """The text of a cell; Excel keeps a day as its midnight, 5 % as 0.05, and the euros of a price in its format."""
    value = cell.value
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, int | float) and not isinstance(value, bool):
        form = "General"
        # A format may be named that the file has not.
        with suppress(IndexError):
            form = cell.number_format
        decimals, unit = (None, "") if form == "General" else _shown_as(form)
        if decimals is not None and abs(value) < _MOST_SHARE:
            # Halves are shown rounded up.
            return f"{math.nextafter(value, math.copysign(math.inf, value)):.{decimals}%}"
        # A cell keeps 15 figures: that 0.1 and 0.2 make 0.30000000000000004 is nothing that it shows.
        number = f"{value:.15g}" if isinstance(value, float) else str(value)
        return f"{number} {unit}" if unit else number
    return "" if value is None else str(value)


@lru_cache(maxsize=1 << 10)
def _shown_as(form: str) -> tuple[int | None, str]:
    """With how many decimals a format shows a number in hundredths, if it does, and else with which unit.

    One that shows some numbers with one unit and others with another, or none, says neither.
    """
    texts = iter([[part.strip() for part in found.groups("")] for found in _LITERAL.finditer(form)])
    found: set[tuple[int | None, str]] = set()
    for section in _LITERAL.sub("\0", form).split(";"):
        literals = [(place, next(texts)) for place, char in enumerate(section) if char == "\0"]
        first = re.search("[0#]", section)
        if first is None:
            continue
        units = [
            text or escaped or currency or symbol
            for place, (text, escaped, currency, symbol) in literals
            if currency or symbol or text in ("$", "€", "£", "¥") or place > first.start()
        ]
        decimals = _DECIMALS.search(section)
        if "%" in section:
            found.add((len(decimals[1]) if decimals else 0, ""))
        else:
            divided = _DIVIDED.search(section) is not None
            found.add((None, next((one for one in units if _UNIT.fullmatch(one) and not divided), "")))
    return found.pop() if len(found) == 1 else (None, "")


def _plain(markdown: str) -> str:
    """Markdown with its structure, and without what a reader does not read: escapes, marks of emphasis, pictures."""
    text = _SLANTED.sub(r"\1", _PICTURE.sub(r"\1", markdown).replace("**", ""))
    text = _NO_HEAD.sub(r"\2\n\1", text)
    lines = (line for line in text.split("\n") if line.strip("| ") or not line.startswith("|"))
    return _ESCAPE.sub(r"\1", "\n".join(lines))


OFFICE: Final = {
    suffix: partial(_read, convert, suffix)
    for suffix, convert in {
        ".docx": _word,
        ".epub": _book,
        ".ods": _open_sheets,
        ".odt": _open_text,
        ".pptx": _slides,
        ".xlsm": _sheets,
        ".xlsx": _sheets,
    }.items()
}
"""The reader of each suffix."""
