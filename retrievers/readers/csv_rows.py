"""The rows of CSV, where a quote that somebody typed and never closed does not take in the rest of the file."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

from keqa.retrievers.base import Notice
from keqa.retrievers.readers.common import UnreadError, csv_reader

# A quoted cell of so many lines that is malformed as well holds rows, and ends at the next quote of its kind.
_MANY_LINES: Final = 20
# So many times the lines of a file may be read again, as each such quote may reach to its end.
_MOST_AGAIN: Final = 10


def csv_rows(text: str, delimiter: str, path: Path, notice: Notice) -> Iterator[list[str]]:
    """Yield the cells of each row.

    A line with a quote that is not closed, while the lines after it are rows as those before it, is read with its
    quotes as characters. So is one whose quoted cell ends at another such quote very many lines on.

    Args:
        text: The content.
        delimiter: What parts the cells.
        path: For messages.
        notice: Called where a quote is not closed.

    Raises:
        UnreadError: It is no CSV.
    """
    reading = _Reading(list(io.StringIO(text, newline="")), delimiter, path, notice)
    start: int | None = 0
    while start is not None:
        start = yield from reading.until_stray(start)
    reading.report()


class _Reading:
    """The lines of a file, and what is known of them so far."""

    def __init__(self, lines: list[str], delimiter: str, path: Path, notice: Notice) -> None:
        self._lines, self._delimiter, self._path, self._notice = lines, delimiter, path, notice
        self._columns = self._again = 0
        self._stray: list[int] = []
        self._rest_is_literal = False

    def until_stray(self, start: int) -> Generator[list[str], None, int | None]:
        """The rows from a line on to a stray quote, its own included; then where to go on, or None at the end."""
        # The line beyond the last one is a row of its own, unless a quote is open there.
        lines = itertools.chain(itertools.islice(self._lines, start, None), ["\n"])
        reader = csv_reader(lines, self._delimiter)
        after = start
        while after < len(self._lines):
            begun = after
            try:
                row = next(reader)
            except csv.Error as error:
                raise self._malformed(start + reader.line_num, error) from error
            after = start + reader.line_num
            is_open = after > len(self._lines)
            if self._is_stray(begun, after, is_open=is_open):
                self._stray.append(begun + 1)
                self._again += after - begun
                self._rest_is_literal = self._again > _MOST_AGAIN * len(self._lines)
                end = len(self._lines) if self._rest_is_literal else begun + 1
                try:
                    yield from _literally(self._lines[begun:end], self._delimiter)
                except csv.Error as error:
                    raise self._malformed(begun + 1, error) from error
                return None if end == len(self._lines) else end
            if is_open:
                self._notice(
                    f"{self._path}, line {begun + 1}: a quote that is not closed; all after it was read as one cell"
                )
            if after == begun + 1:
                self._columns = max(self._columns, len(row))
            yield row
        return None

    def _is_stray(self, begun: int, after: int, *, is_open: bool) -> bool:
        """Whether the row of some lines is several, of which the first has a quote that is nobody's."""
        if not is_open and after - begun <= _MANY_LINES:
            return False
        lines = self._lines[begun:after]
        if not is_open and not _is_malformed(lines, self._delimiter):
            return False
        try:
            widths = [len(row) for row in _literally(lines, self._delimiter) if row]
        except csv.Error:
            return False
        # The lines of a long text have as many cells by chance only.
        others = widths[1:] or widths
        return 2 * others.count(self._columns or widths[0]) > len(others)

    def _malformed(self, line: int, error: csv.Error) -> UnreadError:
        return UnreadError("damaged", f"{self._path}, line {line}: malformed ({error})")

    def report(self) -> None:
        """Say which quotes were read as characters."""
        if not self._stray:
            return
        first, *others = self._stray
        more = f", and so in {len(others):,} more lines" if others else ""
        more += f", and in all after line {self._stray[-1]:,}" if self._rest_is_literal else ""
        self._notice(f"{self._path}, line {first}: a quote that is not closed was read as a character{more}")


def _literally(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    return list(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE))


def _is_malformed(lines: Sequence[str], delimiter: str) -> bool:
    try:
        list(csv_reader(lines, delimiter, strict=True))
    except csv.Error:
        return True
    return False
