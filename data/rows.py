"""The rows of a file of questions, each with its place, so that an error can name it."""

from __future__ import annotations

import codecs
import csv
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keqa.data.json_stream import elements
from keqa.errors import InputError
from keqa.retrievers.readers.common import READ_ERRORS, csv_delimiter, csv_reader, open_binary, read_lines, read_whole

# A document of JSON is held in memory as a whole, with what is made of it.
_LARGEST = 2 << 30


@dataclass(frozen=True)
class Row:
    """One record of a file.

    Attributes:
        path: The file; None for what comes from a program or the hub.
        number: Its place, from 1.
        value: The record, or the error that kept it from being read.
        unit: What `number` counts: ``line``, ``record``, ``question``, ``example``.
    """

    path: Path | None
    number: int
    value: Any
    unit: str = "record"


def json_list(path: Path) -> Iterator[Row]:
    """The records of a JSON list, or of JSON lines: many copies of a benchmark have one for the other.

    One record is in memory at a time; HotpotQA's train file would take gigabytes at once.
    """
    with open_binary(path) as stream:
        try:
            opening = stream.read(1024).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        except READ_ERRORS as error:
            raise InputError(f"{path} cannot be read: {error}") from error
    if opening != b"[":
        yield from json_lines(path)
        return
    for number, record in enumerate(elements(path), start=1):
        yield Row(path, number, record)


def json_lines(path: Path) -> Iterator[Row]:
    """The objects of a file with one on each line; empty lines are passed over, a malformed one is a row's error.

    Raises:
        InputError: The file cannot be read.
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        value: Any
        try:
            value = json.loads(line.rstrip())
        except json.JSONDecodeError as error:
            value = InputError(f"malformed JSON ({error.msg} at column {error.colno})")
        except (RecursionError, ValueError) as error:
            value = InputError(f"malformed JSON ({error})")
        yield Row(path, number, value, "line")


def json_document(path: Path) -> Any:
    """A JSON file, read as a whole."""
    data = read_whole(path, _LARGEST)
    try:
        return json.loads(data.removeprefix(codecs.BOM_UTF8))
    except json.JSONDecodeError as error:
        what = f"malformed JSON ({error.msg} at column {error.colno})"
        raise InputError(f"{path}, line {error.lineno}: {what}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason}); convert the file to UTF-8 first") from error
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path}: malformed JSON ({error})") from error


def csv_cells(path: Path, delimiter: str | None = None) -> Iterator[tuple[int, list[str] | InputError]]:
    """The cells of each row of a CSV file with the line that it begins on; blank rows are passed over.

    A malformed row is its error.
    """
    lines: Iterator[str] = (line for _, line in read_lines(path))
    if delimiter is None:
        first = next(lines, "")
        delimiter, named = csv_delimiter(first)
        lines = itertools.chain(["\n" if named else first], lines)
    reader = csv_reader(lines, delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            last = f", up to line {reader.line_num}" if reader.line_num > number else ""
            yield number, InputError(f"malformed CSV ({error}){last}")
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield number, cells


def table(path: Path, header: Sequence[str] | None = None, *, look_for: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of a CSV file as mappings from column to cell."""
    names = None if header is None else list(header)
    for number, cells in csv_cells(path, ","):
        if isinstance(cells, InputError):
            yield Row(path, number, cells, "line")
        elif names is not None:
            wrong = InputError(f"there are {len(cells)} cells, {len(names)} are expected")
            value = dict(zip(names, cells, strict=True)) if len(cells) == len(names) else wrong
            yield Row(path, number, value, "line")
        elif set(look_for) <= {cell.strip() for cell in cells}:
            names = [cell.strip() for cell in cells]
        elif number > 10:
            break
    if names is None:
        raise InputError(f"{path}: no line has the columns {', '.join(look_for)}")
