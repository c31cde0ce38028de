"""The rows of a file of questions, each with its place, so that an error can name it."""

import codecs
import io
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
_OPENING: Final = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*+(?!\])")
_COMMA: Final = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_BEHIND: Final = (",", "]", " ", "\t", "\r", "\n")


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
    unread, place, number, line, ended = "", 0, 1, 1, False
    with open_binary(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        while True:
            mark = (_OPENING if number == 1 else _COMMA).match(unread, place)
            begun = mark.end() if mark else place
            where = f"{path}, record {number}, line {line + unread.count(chr(10), place, begun)}"
            if mark:
                if (found := _decoded(unread, begun, ended, where)) is not None:
                    value, end = found
                    yield value
                    line, place, number = line + unread.count("\n", place, end), end, number + 1
                    continue
            else:
                left = "".join(unread[place:].split())
                if left != ("[]" if number == 1 else "]") and (left or ended):
                    raise InputError(
                        f"{where}: {'a list' if number == 1 else 'a comma, or the end of it,'} is expected"
                    )
            if ended:
                return
            unread, place = unread[place:], 0
            if len(unread) > MAX_LINE:
                raise InputError(f"{where}: longer than {MAX_LINE >> 20} MiB, the most that is read of one")
            # At least as much as is unread, so that a long element is tried a few times only.
            more = _read_on(text, max(chunk, len(unread)), path)
            unread, ended = unread + more, not more


def _decoded(unread: str, place: int, ended: bool, where: str) -> tuple[Any, int] | None:
    """The value at a place and where it ends; None where more has to be read first."""
    try:
        value, end = json.JSONDecoder().raw_decode(unread, place)
    except json.JSONDecodeError as error:
        if ended:
            raise InputError(f"{where}: malformed JSON ({error.msg})") from error
        return None
    except (RecursionError, ValueError) as error:
        # What follows makes neither depth nor a number of thousands of digits better.
        raise InputError(f"{where}: {malformed(error)}") from error
    # A number that the end of what was read cuts off looks complete; what follows a value decides.
    return (value, end) if ended or unread[end : end + 1] in _BEHIND else None


def _read_on(text: io.TextIOWrapper, size: int, path: Path) -> str:
    try:
        return text.read(size)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8(error)}") from error
    except READ_ERRORS as error:
        raise InputError(f"{path} cannot be read: {error}") from error


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
