"""The user's own question-answer pairs, from JSONL or CSV."""

import ast
import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeGuard

from keqa.data.example import Example, as_example
from keqa.data.loading import Loaded, Problem, collect, read_records
from keqa.data.question import refuse_table
from keqa.data.rows import SourceRow, csv_cells, json_lines
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix

_LISTS: Final = ("answers", "choices", "quizzes", "quiz_answers")
_COLUMNS: Final = ("id", "question", "answer", "answer_type", "unanswerable", "kind", *_LISTS)
# The columns in which whole numbers may have become fractions.
_WHOLE: Final = ("answer", "answers")
_FRACTION: Final = re.compile(r"-?[0-9]{1,15}\.0")

# The escapes are those that Python itself writes.
_ESCAPED: Final = r"\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
_STRING: Final = rf"'(?:[^'\\\n]|{_ESCAPED})*'|\"(?:[^\"\\\n]|{_ESCAPED})*\""
_OTHER: Final = r"[+-]?\d{1,300}(?:\.\d{0,300})?(?:e[+-]?\d{1,3})?|None|nan|True|False"
_ITEM: Final = re.compile(f"{_STRING}|{_OTHER}")
_LIST: Final = re.compile(rf"\[(?:\s*(?:{_ITEM.pattern})(?:\s*,\s*(?:{_ITEM.pattern}))*(?:\s*,)?)?\s*\]")
# NumPy writes no commas, and to Python two strings without one between them are a single string.
_ARRAY: Final = re.compile(rf"\[\s*(?:{_STRING})(?:\s+(?:{_STRING}))*\s*\]")
_NAN: Final = float("nan")


def read_examples(path: Path | str, *, sample: int | None = None, seed: int = 0, unanswerable: bool = False) -> Loaded:
    """Read a file of question-answer pairs.

    JSONL (``.jsonl``, ``.ndjson``) has one object a line: `question`, `answer` or `answers` (gold first, then aliases;
    either may be a text or a list), and where wanted `id`, `answer_type`, `choices`, `quizzes`, `quiz_answers` and
    `kind`. CSV (``.csv``, ``.tsv``) has the same as columns; cells are parted as the first line shows, such as by
    semicolons. All but `answer` that are lists are split at ``|``; a cell that is a list as JSON or Python writes it,
    as ``DataFrame.to_csv`` does, is that list in `answer`, too, and whole numbers that pandas made to fractions are
    whole. Names may have capitals, further fields are passed over, and either may be packed with gzip.

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
        rows: Iterator[SourceRow] = (replace(row, value=_named(row.value)) for row in json_lines(path))
    elif suffix in (".csv", ".tsv"):
        rows = _csv_rows(path, "\t" if suffix == ".tsv" else None)
    else:
        raise InputError(f"{path}: question-answer pairs are read from .jsonl and .csv, not from {suffix or path.name}")
    return _read(rows, unanswerable)


def sort_examples(items: Iterable[Any]) -> Loaded:
    """Sort what a program holds into examples and problems; see `keqa.data.example.as_examples` for what it takes."""
    refuse_table(items, "keqa")
    return collect(_read(SourceRow(None, number, item, "example") for number, item in enumerate(items, start=1)))


def _read(rows: Iterable[SourceRow], unanswerable: bool = False) -> Iterator[Example | Problem]:
    found = read_records(rows, partial(as_example, unanswerable=unanswerable), own=True)
    return (one for one in found if isinstance(one, Example | Problem))


def _named(fields: Any) -> dict[str, Any] | InputError:
    """The fields of a line under the names that they have here, capitals or not; an exact name goes before."""
    if isinstance(fields, InputError):
        return fields
    if not isinstance(fields, dict):
        return InputError(f"an object with question and answer is expected, not {type(fields).__name__}")
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


def _csv_rows(path: Path, delimiter: str | None) -> Iterator[SourceRow]:
    rows = csv_cells(path, delimiter)
    first = next(rows, None)
    if first is None:
        return
    header = _header(f"{path}, line {first[0]}", first[1])
    # The whole of a column decides, so the file is read twice, as far as that can be open.
    again = islice(csv_cells(path, delimiter), 1, None)
    fractions = fractions_of_wholes(header, (row for _, row in again if _fits(row, header)))
    for number, cells in rows:
        yield SourceRow(path, number, _record(header, cells, fractions) if isinstance(cells, list) else cells, "line")


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
    values = {name: cell if cell is None else _value(name, cell) for name, cell in found.items()}
    # An empty cell of an answer is no word about the documents.
    return values if values.get("unanswerable") is not None else {**values, "unanswerable": False}


def _value(column: str, cell: str) -> Any:
    found = listed(cell) if column == "answer" or column in _LISTS else None
    if found is not None:
        return found
    return cell.split("|") if column in _LISTS else cell


def listed(cell: str) -> list[Any] | None:
    """The list that a cell is as a whole, ``null`` and ``nan`` included; None where it is anything else."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return found if all(one is None or isinstance(one, str | int | float) for one in found) else None
    if _LIST.fullmatch(text) is None and _ARRAY.fullmatch(text) is None:
        return None
    try:
        return [_NAN if one == "nan" else ast.literal_eval(one) for one in _ITEM.findall(text)]
    except (ValueError, SyntaxError):
        return None


def fractions_of_wholes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> set[str]:
    """The columns of answers in which pandas wrote whole numbers as fractions, such as ``1871.0``.

    It does so where a number is missing: a cell is empty, and every other one ends in ``.0``.
    """
    places = {name: header.index(name) for name in _WHOLE if name in header}
    found: dict[str, set[str]] = {name: set() for name in places}
    for row in rows:
        for name, place in places.items():
            cell = row[place].strip()
            found[name].add("empty" if not cell else "whole" if _FRACTION.fullmatch(cell) else "other")
        if all("other" in kinds for kinds in found.values()):
            break
    return {name for name, kinds in found.items() if kinds == {"empty", "whole"}}
