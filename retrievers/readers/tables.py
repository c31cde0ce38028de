"""Tables, from CSV and spreadsheets: each row a record, with what its columns are called."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import DELIMITERS, UnreadError, csv_delimiter, csv_reader, decode
from keqa.retrievers.readers.document import ReadDocument, ReadSection
from keqa.retrievers.readers.records import TEXT_NAMES, TITLE_NAMES
from keqa.retrievers.text import WORD_LENGTH, one_line, text_length

# So many rows show which column is text.
_HEAD: Final = 200
# A column is text where its cells have as many words in the mean.
_TEXT_WORDS: Final = 8
_SNIFFED: Final = 64 << 10
# So many lines at most stand above a head, and so many characters of them in a heading, which ends in the row's number.
_MOST_ABOVE: Final = 10
_LONGEST_ABOVE: Final = 200
_LONGEST_NAME: Final = 300
# So many of the rows below a head have no more cells than it, and more than one.
_LIKE_THE_HEAD: Final = 0.8
# Columns of a table of persons, whose column `title` says what somebody is.
_PERSONAL: Final = re.compile(
    r"(?:first|last|given|family|full|employee)?[ _-]?name|forename|surname|employee|person|staff|salary|e[ _-]?mail"
    r"|phone|(?:vor|nach)name|mitarbeiter|telefon|gehalt|prénom|nom|apellido|nombre|имя|фамилия|сотрудник|姓名|员工|氏名"
)
# After so many quotes that are not closed all of them are characters, as each is looked for up to the end.
_MOST_OPEN: Final = 10


def read_csv(data: bytes, path: Path, notice: Notice) -> ReadDocument:
    """The rows of a CSV file, which are parted by commas, semicolons, tabs or bars."""
    text = decode(data, str(path), notice).removeprefix("\ufeff")
    first = text[:_SNIFFED].split("\n", 1)[0]
    delimiter, named = csv_delimiter(first)
    if named:
        # Its line stays, so that the others keep their numbers.
        text = text[len(first) :]
    else:
        delimiter = _delimiter(text[:_SNIFFED]) or delimiter
    sections, column = table_sections(_csv_rows(text, delimiter, path, notice))
    if column:
        notice(f"{path}: the column {column!r} was read as text, a passage or more a row")
    return ReadDocument("", sections, records=True)


def _csv_rows(text: str, delimiter: str, path: Path, notice: Notice) -> Iterator[list[str]]:
    """The cells of each row; a quote that nothing closes is a character, and takes in no other row."""
    lines = list(io.StringIO(text, newline=""))
    begun = opened = 0
    while begun < len(lines):
        # The line beyond the last one is a row of its own, unless a quote is open there.
        reader = csv_reader([*lines[begun:], "\n"], delimiter, quoted=opened < _MOST_OPEN)
        start = begun
        try:
            for row in reader:
                if start + reader.line_num > len(lines):
                    break
                begun = start + reader.line_num
                yield row
        except csv.Error as error:
            raise UnreadError("damaged", f"{path}, line {start + reader.line_num}: malformed ({error})") from error
        if begun < len(lines):
            opened += 1
            notice(f"{path}, line {begun + 1}: a quote that is not closed was read as a character")
            yield from csv.reader(lines[begun : begun + 1], delimiter=delimiter, quoting=csv.QUOTE_NONE)
            begun += 1


def _delimiter(sample: str) -> str:
    """What parts the rows of a sample into as many cells as each other; empty where nothing does, as in one column."""
    best, found = 0.0, ""
    lines = sample.splitlines(keepends=True)[:_HEAD]
    for delimiter in DELIMITERS:
        with suppress(csv.Error):
            widths = Counter(len(row) for row in csv_reader(lines, delimiter) if row)
            width, rows = max(widths.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
            share = rows / max(widths.total(), 1)
            if width > 1 and share > best:
                best, found = share, delimiter
    return found


def table_sections(rows: Iterable[Sequence[str]], sheet: str = "") -> tuple[list[ReadSection], str]:
    """The rows of a table below its head, and the name of the column that is text, where there is one.

    A row is the text of that column with the others in brackets, or else ``column: value; column: value``.
    """
    cleaned = ([one_line(cell) for cell in row] for row in rows)
    numbered = [(number, row) for number, row in enumerate(cleaned, start=1) if any(row)]
    if not numbered:
        return [], ""
    above = _lines_above([row for _, row in numbered[: _MOST_ABOVE + _HEAD]])
    lines = ("; ".join(filter(None, row)).lstrip("# ") for _, row in numbered[:above])
    lines_above = "; ".join(filter(None, lines))[:_LONGEST_ABOVE]
    heading = "".join(f"{one}, " for one in (sheet, lines_above) if one) + "row"
    (first, names), *body = numbered[above:]
    # A name is said again in every row.
    names = [name[:_LONGEST_NAME] for name in names]
    if not body:
        return [ReadSection("; ".join(filter(None, names)), f"{heading} {first}")], ""
    known = [name.lower() for name in names]
    text, title = _text_column(known, [row for _, row in body[:_HEAD]]), _title_column(known)
    sections = []
    for number, row in body:
        own = row[title] if title is not None and title < len(row) else ""
        body_text = row[text] if text is not None and text < len(row) else ""
        # What the title says is not said again.
        repeated = {text, *([title] if own and body_text else [])}
        cells = [
            f"{names[place]}: {cell}" if place < len(names) and names[place] else cell
            for place, cell in enumerate(row)
            if cell and place not in repeated
        ]
        rest = "; ".join(cells)
        whole = f"{body_text} ({rest})" if body_text and rest else body_text or rest
        sections.append(ReadSection(whole, f"{heading} {number}", title=own))
    return sections, "" if text is None else names[text]


def _lines_above(rows: Sequence[Sequence[str]]) -> int:
    """How many rows, titles or comments, stand above the head; none where it is not certain."""
    for count in range(1, min(_MOST_ABOVE, len(rows) - 2) + 1):
        head, *body = rows[count:]
        columns = _width(head)
        if columns < 2 or not all(head[1:columns]):
            continue
        fitting = sum(sum(map(bool, row)) > 1 and _width(row) <= columns for row in body)
        # A short table may end in a total.
        if fitting and fitting >= _LIKE_THE_HEAD * (len(body) - 1):
            return count if all(_is_above(row, columns, head) for row in rows[:count]) else 0
    return 0


def _is_above(row: Sequence[str], columns: int, head: Sequence[str]) -> bool:
    cells = sum(map(bool, row))
    if row[0].startswith("#") and cells != columns:
        return True
    if cells != 1:
        return False
    # A head may name the first of its two columns only: a title has several words, and a head no figures.
    padded_pair = len(row) > 1 and columns == 2
    return not padded_pair or (" " in row[0] and not any(cell[0].isdigit() for cell in head[:columns] if cell))


def _width(row: Sequence[str]) -> int:
    """How many cells a row has, empty ones at its end aside."""
    return max(number for number, cell in enumerate(row, start=1) if cell)


def _first(wanted: Sequence[str], names: Sequence[str]) -> int | None:
    return next((names.index(name) for name in wanted if name in names), None)


def _title_column(names: Sequence[str]) -> int | None:
    """The column of what rows are called: a title beside a name is that of a person, unless the rows are texts."""
    persons = any(map(_PERSONAL.fullmatch, names)) and _first(TEXT_NAMES, names) is None
    return _first([name for name in TITLE_NAMES if not (persons and name == "title")], names)


def _text_column(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int | None:
    if (named := _first(TEXT_NAMES, names)) is not None:
        return named
    places = range(len(names))
    columns = [[text_length(row[at]) for row in rows if at < len(row) and row[at]] for at in places]
    lengths = [sum(column) / max(len(column), 1) for column in columns]
    longest = max(lengths, default=0.0)
    return lengths.index(longest) if longest >= _TEXT_WORDS * WORD_LENGTH else None
