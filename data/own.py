"""The user's own question-answer pairs, from JSONL or CSV."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

from keqa.data.cells import LISTS, fractions_of_wholes, values_of
from keqa.data.example import Example, as_example
from keqa.data.loading import Loaded, Problem, collect, read_records
from keqa.data.rows import Row, csv_cells, json_lines
from keqa.data.tables import refuse_table
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix

__all__ = ["Problem", "Reading", "iter_examples", "read_examples", "sort_examples"]

Reading = Loaded
"""What was read from a file of the user's own."""

_COLUMNS = ("id", "question", "answer", "answer_type", "unanswerable", *LISTS)


def read_examples(path: Path | str, *, sample: int | None = None, seed: int = 0, unanswerable: bool = False) -> Loaded:
    """Read a file of question-answer pairs.

    JSONL (``.jsonl``, ``.ndjson``) has one object a line: `question`, `answer` or `answers` (gold first, then aliases;
    either may be a text or a list), and where wanted `id`, `answer_type`, `choices`, `quizzes` and `quiz_answers`. CSV
    (``.csv``, ``.tsv``) has the same as columns; cells are parted as the first line shows, such as by semicolons. All
    but `answer` that are lists are split at ``|``, and a list as JSON or Python writes it is one in `answer`, too.
    Columns of answers in which pandas made whole numbers to fractions are read as whole numbers; see
    `keqa.data.cells`. Names may have capitals. Either may be packed with gzip. Further fields are passed over.

    A question that its documents do not answer has ``"answer": null`` (JSONL only, for an empty cell may be a slip), or
    ``"unanswerable": true`` and no answer.
    """
    return collect(iter_examples(path, unanswerable=unanswerable), source=str(path), sample=sample, seed=seed)


def iter_examples(path: Path | str, *, unanswerable: bool = False) -> Iterator[Example | Problem]:
    """The examples of a file as `read_examples` reads it, one in memory at a time, and what is wrong between them."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not there, or is no file")
    suffix = plain_suffix(path)
    if suffix in (".jsonl", ".ndjson"):
        rows = _jsonl_rows(path)
    elif suffix in (".csv", ".tsv"):
        rows = _csv_rows(path, "\t" if suffix == ".tsv" else None)
    else:
        raise InputError(f"{path}: question-answer pairs are read from .jsonl and .csv, not from {suffix or path.name}")
    return _read(rows, unanswerable)


def sort_examples(items: Iterable[Any]) -> Loaded:
    """Sort what a program holds into examples and problems; see `keqa.data.example.as_examples` for what it takes."""
    refuse_table(items, "keqa")
    return collect(_read(Row(None, number, item, "example") for number, item in enumerate(items, start=1)))


def _read(rows: Iterable[Row], unanswerable: bool = False) -> Iterator[Example | Problem]:
    found = read_records(rows, partial(as_example, unanswerable=unanswerable), own=True)
    return (one for one in found if isinstance(one, Example | Problem))


def _jsonl_rows(path: Path) -> Iterator[Row]:
    for row in json_lines(path):
        value = row.value
        if isinstance(value, dict):
            value = _named(value)
        elif not isinstance(value, InputError):
            value = InputError(f"an object with question and answer is expected, not {type(value).__name__}")
        yield Row(path, row.number, value, row.unit)


def _named(fields: dict[str, Any]) -> dict[str, Any] | InputError:
    """The fields of a line under the names that they have here, capitals or not.

    What has a name exactly is meant by it, so that another in capitals beside it is a further field.
    """
    found: dict[str, Any] = {}
    for name, value in fields.items():
        plain = name.strip().lower()
        if plain == name or plain not in _COLUMNS or plain in fields:
            found[name] = value
        elif plain in found:
            return InputError(f"the field {plain} is there twice")
        else:
            found[plain] = value
    return found


def _csv_rows(path: Path, delimiter: str | None) -> Iterator[Row]:
    rows = csv_cells(path, delimiter)
    for number, cells in rows:
        header = _header(f"{path}, line {number}", cells)
        break
    else:
        return
    # The whole of a column decides, so the file is read twice, as far as that can be open.
    again = islice(csv_cells(path, delimiter), 1, None)
    fractions = fractions_of_wholes(header, (row for _, row in again if _fits(row, header)))
    for number, cells in rows:
        yield Row(path, number, _record(header, cells, fractions) if isinstance(cells, list) else cells, "line")


def _header(where: str, cells: list[str] | InputError) -> list[str]:
    if isinstance(cells, InputError):
        raise InputError(f"{where}: {cells}") from cells
    names = [cell.strip().lower() for cell in cells]
    missing = "question" not in names or not {"answer", "answers", "unanswerable"} & set(names)
    twice = {name for name in names if name in _COLUMNS and names.count(name) > 1}
    if missing or twice:
        wrong = f"the column {min(twice)} is there twice" if twice else "the columns question and answer are expected"
        raise InputError(f"{where}: {wrong}, found {', '.join(names)}")
    return names


def _fits(cells: list[str] | InputError, header: list[str]) -> TypeGuard[list[str]]:
    return isinstance(cells, list) and len(cells) == len(header)


def _record(header: list[str], cells: list[str], fractions: Container[str]) -> dict[str, Any] | InputError:
    """The fields of a line; None in the place of an empty cell."""
    if not _fits(cells, header):
        return InputError(f"there are {len(cells)} cells, the header has {len(header)}")
    found = {name: cell if cell.strip() else None for name, cell in zip(header, cells, strict=True) if name in _COLUMNS}
    if not found.get("choices"):
        # Of options, an answer is one as they are written.
        found |= {name: cell.strip()[:-2] for name, cell in found.items() if cell and name in fractions}
    # An empty cell of an answer is no word about the documents.
    values = {name: cell if cell is None else values_of(name, cell) for name, cell in found.items()}
    return values if values.get("unanswerable") is not None else {**values, "unanswerable": False}
