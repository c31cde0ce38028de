"""Tables, from CSV and spreadsheets: each row a record, with what its columns are called."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import DELIMITERS, csv_delimiter, decode
from keqa.retrievers.readers.csv_rows import csv_rows
from keqa.retrievers.readers.document import Document, Section
from keqa.retrievers.readers.records import TEXT_NAMES, TITLE_NAMES
from keqa.retrievers.text import WORD_LENGTH, one_line, text_length

# So many rows show which column is text.
_HEAD: Final = 200
# A column is text where its cells have as many words in the mean.
_TEXT_WORDS: Final = 8
_SNIFFED: Final = 64 << 10


def read_csv(data: bytes, path: Path, notice: Notice) -> Document:
    """The rows of a CSV file, which are parted by commas, semicolons, tabs or bars.

    Args:
        data: Its content.
        path: For messages.
        notice: Called for a guessed encoding, a quote that is not closed, and the column that was taken for the text.

    Raises:
        UnreadError: It is no CSV.
    """
    text = decode(data, str(path), notice).removeprefix("\ufeff")
    first = text[:_SNIFFED].split("\n", 1)[0]
    delimiter, named = csv_delimiter(first)
    if named:
        # Its line stays, so that the others keep their numbers.
        text = text[len(first) :]
    else:
        # The sniffer, which reads more than a line, sees nothing where there is one column, or few lines.
        with suppress(csv.Error):
            delimiter = csv.Sniffer().sniff(text[:_SNIFFED], DELIMITERS).delimiter
    sections, column = table_sections(csv_rows(text, delimiter, path, notice))
    if column:
        notice(f"{path}: the column {column!r} was read as text, a passage or more a row")
    return Document("", sections, records=True)


def table_sections(rows: Iterable[Sequence[str]], sheet: str = "") -> tuple[list[Section], str]:
    """The rows of a table below its head, the first row that has text.

    Where a column is text, by its name (``text``, ``content`` and so on) or because it holds sentences, a row is the
    text of that column, and the other columns follow in brackets; otherwise a row is ``column: value; column: value``.
    The title of a row is that of its column ``title``, ``name`` or ``heading``.

    Args:
        rows: Cells as text.
        sheet: Name of the sheet, for headings.

    Returns:
        A section for each row, and the name of the column of the text; empty where there is none.
    """
    numbered = [(number, [one_line(cell) for cell in row]) for number, row in enumerate(rows, start=1) if any(row)]
    if not numbered:
        return [], ""
    (first, names), *body = numbered
    if not body:
        return [Section("; ".join(filter(None, names)), _heading(sheet, first))], ""
    known = [name.lower() for name in names]
    text, title = _text_column(known, [row for _, row in body[:_HEAD]]), _first(TITLE_NAMES, known)
    sections = []
    for number, row in body:
        own = row[title] if title is not None and title < len(row) else ""
        body_text = row[text] if text is not None and text < len(row) else ""
        # What the title says is not said again.
        said = {text, *([title] if own and body_text else [])}
        cells = [
            f"{names[place]}: {cell}" if place < len(names) and names[place] else cell
            for place, cell in enumerate(row)
            if cell and place not in said
        ]
        rest = "; ".join(cells)
        whole = f"{body_text} ({rest})" if body_text and rest else body_text or rest
        sections.append(Section(whole, _heading(sheet, number), title=own))
    return sections, "" if text is None else names[text]


def _heading(sheet: str, number: int) -> str:
    return f"{sheet}, row {number}" if sheet else f"row {number}"


def _first(wanted: Sequence[str], names: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _text_column(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    if (named := _first(TEXT_NAMES, names)) is not None:
        return named
    lengths = []
    for column in range(len(names)):
        cells = [row[column] for row in rows if column < len(row) and row[column]]
        lengths.append(sum(map(text_length, cells)) / len(cells) if cells else 0.0)
    longest = max(lengths, default=0.0)
    return lengths.index(longest) if longest >= _TEXT_WORDS * WORD_LENGTH else None
