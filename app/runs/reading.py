"""Reading run files, finished or not; see `keqa.runs.lines`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from keqa.errors import InputError
from keqa.runs.lines import FORMAT, Run, RunHeader, RunLine

__all__ = ["iter_lines", "places", "read_header", "read_run"]

_LONGEST_TOLD = 3


def read_header(path: Path | str) -> RunHeader:
    """Read the first line of a run file.

    Raises:
        InputError: There is no such file, it is no run file, or another version wrote it.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            first = stream.readline()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        value = json.loads(first)["header"]
        version = value["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is no run file: its first line holds no header") from error
    if version != FORMAT:
        raise InputError(
            f"{path} has format {version!r}, this version of KEQA reads {FORMAT}; use the version that wrote it"
        )
    try:
        return RunHeader.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{path}, line 1: the header is damaged: {_told(error)}") from error


def iter_lines(path: Path | str) -> Iterator[RunLine]:
    """Read the lines of a run file one by one.

    A last line without an end was cut off by a kill, and is left out. Where a question was asked again, the later line
    is yielded as well as the earlier one; a finished file holds the later one alone.

    Raises:
        InputError: The file cannot be read, or a line is damaged.
    """
    for _, line in places(path):
        yield line


def places(path: Path | str) -> Iterator[tuple[range, RunLine]]:
    """Read the lines of a run file with their places, as ranges of bytes; see `iter_lines`.

    Raises:
        InputError: The file cannot be read, or a line is damaged.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            start = len(stream.readline())
            for number, line in enumerate(stream, start=2):
                if not line.endswith(b"\n"):
                    return
                try:
                    yield range(start, start + len(line)), RunLine.model_validate_json(line)
                except ValidationError as error:
                    raise InputError(
                        f"{path}, line {number}: the line is damaged ({_told(error)}); delete it, and the run asks "
                        "its question again"
                    ) from error
                start += len(line)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error


def read_run(path: Path | str) -> Run:
    """Read a run file, finished or not.

    Raises:
        InputError: The file cannot be read or is no run file, or a line is damaged.
    """
    header = read_header(path)
    return Run(header, list({line.id: line for line in iter_lines(path)}.values()))


def _told(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False)
    told = [f"{'.'.join(map(str, problem['loc'])) or 'line'}: {problem['msg']}" for problem in problems]
    return "; ".join(told[:_LONGEST_TOLD])
