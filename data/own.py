"""The user's own question-answer pairs, from JSONL or CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keqa.data.example import Example, as_example
from keqa.data.rows import json_lines
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix, read_lines

__all__ = ["Problem", "Reading", "read_examples", "sort_examples"]

_LISTS = ("answers", "choices", "quizzes", "quiz_answers")
_COLUMNS = ("id", "question", "answer", "answer_type", *_LISTS)


@dataclass(frozen=True)
class Problem:
    """An example that was left out.

    Attributes:
        path: The file; None for examples that come from a program.
        line: Line of the file, or place among the examples; from 1.
        message: What is wrong with it.
        unit: What `line` counts in a file: ``line``, or ``record`` and ``question`` where a line number says nothing.
    """

    path: Path | None
    line: int
    message: str
    unit: str = "line"

    def __str__(self) -> str:
        where = f"example {self.line}" if self.path is None else f"{self.path}, {self.unit} {self.line}"
        return f"{where}: {self.message}"


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        examples: Those that can be used, each question once.
        problems: The others, and why.
    """

    examples: list[Example]
    problems: list[Problem]


def read_examples(path: Path | str) -> Reading:
    """Read a file of question-answer pairs.

    JSONL (``.jsonl``, ``.ndjson``) has one object a line: `question`, `answer` or `answers` (gold first, then aliases;
    either may be a text or a list), and where wanted `id`, `answer_type`, `choices`, `quizzes` and `quiz_answers`. CSV
    (``.csv``, ``.tsv``) has the same as columns, where all but `answer` that are lists are split at ``|``. Either may
    be packed with gzip. Further fields are passed over.

    Returns:
        The examples; a line that cannot be used, and a question or id that came before, are named and left out.

    Raises:
        InputError: The file cannot be read, is of another format, or holds nothing that can be used.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not there, or is no file")
    suffix = plain_suffix(path)
    if suffix in (".jsonl", ".ndjson"):
        rows = _jsonl_rows(path)
    elif suffix in (".csv", ".tsv"):
        rows = _csv_rows(path, "\t" if suffix == ".tsv" else ",")
    else:
        raise InputError(f"{path}: question-answer pairs are read from .jsonl and .csv, not from {suffix or path.name}")
    reading = _sorted(path, rows)
    if not reading.examples:
        details = "".join(f"\n  {problem}" for problem in reading.problems[:5])
        raise InputError(f"{path} holds no question that can be used{details}")
    return reading


def sort_examples(items: Iterable[Any]) -> Reading:
    """Sort what a program holds into examples and problems; see `keqa.data.example.as_examples` for what it takes.

    Returns:
        The examples; one that cannot be used, and a question or id that came before, are named and left out.
    """
    return _sorted(None, enumerate(items, start=1))


def _sorted(path: Path | None, rows: Iterable[tuple[int, Any]]) -> Reading:
    examples: list[Example] = []
    problems: list[Problem] = []
    questions: dict[tuple[str, tuple[str, ...]], int] = {}
    ids: dict[str, int] = {}
    place = "example" if path is None else "line"
    for line, item in rows:
        try:
            if isinstance(item, InputError):
                raise item
            example = as_example(item)
            asked = (example.question.casefold(), example.choices)
            if asked in questions:
                raise InputError(f"the question of {place} {questions[asked]} again")
            if example.id in ids:
                raise InputError(f"its id {example.id!r} is that of {place} {ids[example.id]}")
        except InputError as error:
            problems.append(Problem(path, line, str(error)))
            continue
        questions[asked] = ids[example.id] = line
        examples.append(example)
    return Reading(examples, problems)


def _jsonl_rows(path: Path) -> Iterator[tuple[int, Any]]:
    for row in json_lines(path):
        sound = isinstance(row.value, dict | InputError)
        problem = f"an object with question and answer is expected, not {type(row.value).__name__}"
        yield row.number, row.value if sound else InputError(problem)


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[int, Any]]:
    """Yield each row with the line that it begins on."""
    reader = csv.reader((line for _, line in read_lines(path)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            if header is None:
                raise InputError(f"{path}, line {number}: malformed CSV ({error})") from error
            last = f", up to line {reader.line_num}" if reader.line_num > number else ""
            yield number, InputError(f"malformed CSV ({error}){last}")
            continue
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _header(path, number, cells)
        elif len(cells) != len(header):
            yield number, InputError(f"there are {len(cells)} cells, the header has {len(header)}")
        else:
            yield number, _row(dict(zip(header, cells, strict=True)))


def _header(path: Path, number: int, cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    missing = "question" not in names or not {"answer", "answers"} & set(names)
    twice = {name for name in names if name in _COLUMNS and names.count(name) > 1}
    if missing or twice:
        wrong = f"the column {min(twice)} is there twice" if twice else "the columns question and answer are expected"
        raise InputError(f"{path}, line {number}: {wrong}, found {', '.join(names)}")
    return names


def _row(cells: dict[str, str]) -> dict[str, Any]:
    """The fields of a row; an empty cell is no field."""
    filled = {name: cell for name, cell in cells.items() if name in _COLUMNS and cell.strip()}
    return {name: cell.split("|") if name in _LISTS else cell for name, cell in filled.items()}
