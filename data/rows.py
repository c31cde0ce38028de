"""The rows of a file of questions, each with its place, so that an error can name it."""

import codecs
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from keqa.errors import InputError
from keqa.retrievers.readers.common import (
    READ_ERRORS,
    csv_delimiter,
    csv_rows,
    malformed,
    not_utf8,
    open_binary,
    read_lines,
    read_whole,
)
from keqa.storage.untrusted import MAX_LINE

# A document of JSON is held in memory as a whole, with what is made of it.
_LARGEST: Final = 2 << 30
_CHUNK: Final = 1 << 20
_SPACE: Final = " \t\r\n"


@dataclass(frozen=True)
class SourceRow:
    """One record of a file, with its number in its unit, or the error that kept it from being read."""

    path: Path | None
    number: int
    value: Any
    unit: str = "record"


def json_list(path: Path) -> Iterator[SourceRow]:
    """The records of a JSON list, one in memory at a time, or of JSON lines: many copies have one for the other."""
    with open_binary(path) as stream:
        try:
            opening = stream.read(1024).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        except READ_ERRORS as error:
            raise InputError(f"{path} cannot be read: {error}") from error
    if opening != b"[":
        yield from json_lines(path)
        return
    for number, record in enumerate(elements(path), start=1):
        yield SourceRow(path, number, record)


def json_lines(path: Path) -> Iterator[SourceRow]:
    """The objects of a file with one on each line; empty lines are passed over, a malformed one is a row's error."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        value: Any
        try:
            value = json.loads(line.rstrip())
        except (RecursionError, ValueError) as error:
            value = InputError(malformed(error))
        yield SourceRow(path, number, value, "line")


def json_document(path: Path) -> Any:
    try:
        return json.loads(read_whole(path, _LARGEST).removeprefix(codecs.BOM_UTF8))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8(error)}") from error
    except (RecursionError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{path}{line}: {malformed(error)}") from error


def elements(path: Path, chunk: int = _CHUNK) -> Iterator[Any]:
    """Yield the elements of the JSON list that a file consists of."""
    with open_binary(path) as stream:
        text = _Json(path, stream, chunk)
        text.take("[", "a list is expected")
        if text.following() != "]":
            yield text.value()
            while text.following() == ",":
                text.place += 1
                text.number += 1
                text.following()
                yield text.value()
        text.take("]", "malformed JSON (Expecting ',' delimiter)")
        if text.following():
            raise text.error("malformed JSON (Extra data)")


class _Json:
    """The unread part of a file from `place` on, in the element of some number."""

    def __init__(self, path: Path, stream: IO[bytes], chunk: int) -> None:
        self.path, self.text, self.chunk = path, io.TextIOWrapper(stream, "utf-8-sig", newline=""), chunk
        self.buffer, self.place, self.lines, self.number, self.ended = "", 0, 1, 1, False

    def more(self) -> None:
        """Read on, at least as much as is unread, so that a long element is tried a few times only."""
        self.lines += self.buffer.count("\n", 0, self.place)
        self.buffer, self.place = self.buffer[self.place :], 0
        if len(self.buffer) > MAX_LINE:
            raise self.error(f"longer than {MAX_LINE >> 20} MiB, the most that is read of one")
        try:
            found = self.text.read(max(self.chunk, len(self.buffer)))
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path}: {not_utf8(error)}") from error
        except READ_ERRORS as error:
            raise InputError(f"{self.path} cannot be read: {error}") from error
        self.buffer, self.ended = self.buffer + found, not found

    def take(self, character: str, otherwise: str) -> None:
        """Move behind a character that must come now."""
        if self.following() != character:
            raise self.error(otherwise)
        self.place += 1

    def following(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            while self.place < len(self.buffer) and self.buffer[self.place] in _SPACE:
                self.place += 1
            if self.place < len(self.buffer) or self.ended:
                return self.buffer[self.place : self.place + 1]
            self.more()

    def value(self) -> Any:
        """The value at `place`, which is moved behind it."""
        while True:
            try:
                value, end = json.JSONDecoder().raw_decode(self.buffer, self.place)
            except json.JSONDecodeError as error:
                if self.ended:
                    raise self.error(f"malformed JSON ({error.msg})", self.lines + error.lineno - 1) from error
            except (RecursionError, ValueError) as error:
                # What follows makes neither depth nor a number of thousands of digits better.
                raise self.error(malformed(error)) from error
            else:
                # A number that the end of what was read cuts off looks complete; what follows a value decides.
                if self.ended or self.buffer[end : end + 1] in (",", "]", *_SPACE):
                    self.place = end
                    return value
            self.more()

    def error(self, message: str, line: int | None = None) -> InputError:
        line = line or self.lines + self.buffer.count("\n", 0, self.place)
        return InputError(f"{self.path}, record {self.number}, line {line}: {message}")


def csv_cells(path: Path, delimiter: str | None = None) -> Iterator[tuple[int, list[str] | InputError]]:
    """The cells of each row of a CSV file with the line that it begins on; a malformed row is its error."""
    lines: Iterator[str] = (line for _, line in read_lines(path))
    if delimiter is None:
        first = next(lines, "")
        delimiter, named = csv_delimiter(first)
        lines = itertools.chain(["\n" if named else first], lines)
    return csv_rows(lines, delimiter)


def table(path: Path, header: Sequence[str] | None = None, *, look_for: Sequence[str] = ()) -> Iterator[SourceRow]:
    """The rows of a CSV file as mappings from column to cell."""
    names = None if header is None else list(header)
    for number, cells in csv_cells(path, ","):
        if isinstance(cells, InputError):
            yield SourceRow(path, number, cells, "line")
        elif names is not None:
            wrong = InputError(f"there are {len(cells)} cells, {len(names)} are expected")
            value = dict(zip(names, cells, strict=True)) if len(cells) == len(names) else wrong
            yield SourceRow(path, number, value, "line")
        elif set(look_for) <= {cell.strip() for cell in cells}:
            names = [cell.strip() for cell in cells]
        elif number > 10:
            break
    if names is None:
        raise InputError(f"{path}: no line has the columns {', '.join(look_for)}")
