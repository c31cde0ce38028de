"""The user's own question-answer pairs, from JSON or CSV."""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeGuard

from keqa.data.example import FIELDS, Example, own_example
from keqa.data.loading import Loaded, Problem, collect, read_records
from keqa.data.question import refuse_table
from keqa.data.rows import SourceRow, csv_cells, json_list
from keqa.errors import InputError
from keqa.retrievers.readers.common import plain_suffix

SUFFIXES: Final = (*(_JSON := (".jsonl", ".ndjson", ".json")), *(_CSV := (".csv", ".tsv")))
"""Those of the files that are read, which may be packed with gzip."""

_EXPECTED: Final = "lines of JSON objects, a list of them or CSV, with question and answer"
# The columns in which whole numbers may have become fractions.
_WHOLE: Final = ("answer", "answers")
_FRACTION: Final = re.compile(r"-?[0-9]{1,15}\.0")
_NOTHING: Final = float("nan")


def read_examples(path: Path | str, *, sample: int | None = None, seed: int = 0, unanswerable: bool = False) -> Loaded:
    """Read a file of question-answer pairs.

    JSON (``.jsonl``, ``.ndjson``, ``.json``) has one object a line, or a list of objects: `question`, `answer` or
    `answers` (gold first, then aliases), and where wanted `id`, `answer_type`, `choices`, `quizzes`, `quiz_answers` and
    `kind`. CSV (``.csv``, ``.tsv``) has the same as columns; cells are parted as the first line shows, such as by
    semicolons, and whole numbers that pandas made to fractions are whole. Several answers, choices or quizzes are a
    list, or a text; see `keqa.data.example.as_examples`. Names may have capitals, further fields are passed over, and
    either may be packed with gzip.

    A question that its documents do not answer has ``"answer": null`` (JSON only, for an empty cell may be a slip), or
    ``"unanswerable": true`` and no answer.
    """
    unread: dict[str, None] = {}
    found = _read(_noted(_rows(Path(path)), unread), unanswerable)
    loaded = collect(found, source=str(path), expected=_EXPECTED, sample=sample, seed=seed)
    return replace(loaded, unread=tuple(unread))


def _rows(path: Path) -> Iterator[SourceRow]:
    if not path.is_file():
        raise InputError(f"{path} is not there, or is no file")
    suffix = plain_suffix(path)
    if suffix in _JSON:
        return (replace(row, value=_named(row.value)) for row in json_list(path))
    if suffix in _CSV:
        return _csv_rows(path, "\t" if suffix == ".tsv" else None)
    known = f"{', '.join(SUFFIXES[:-1])} and {SUFFIXES[-1]}"
    raise InputError(f"{path}: questions are read from {known}, not from {suffix or path.name}: save it as one of them")


def _noted(rows: Iterable[SourceRow], unread: dict[str, None]) -> Iterator[SourceRow]:
    """The rows as they are, with the names of fields that nothing is read from put where they are asked for."""
    for row in rows:
        if isinstance(row.value, dict):
            unread |= dict.fromkeys(name for name in row.value if name.strip() and name not in FIELDS)
        yield row


def sort_examples(items: Iterable[Any]) -> Loaded:
    """Sort what a program holds into examples and problems; see `keqa.data.example.as_examples` for what it takes."""
    refuse_table(items, "keqa")
    return collect(_read(SourceRow(None, number, item, "example") for number, item in enumerate(items, start=1)))


def _read(rows: Iterable[SourceRow], unanswerable: bool = False) -> Iterator[Example | Problem]:
    found = read_records(rows, partial(own_example, unanswerable=unanswerable), own=True)
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
        if plain == name or plain not in FIELDS or plain in fields:
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
    twice = {name for name in names if name in FIELDS and names.count(name) > 1}
    if missing or twice:
        wrong = f"the column {min(twice)} is there twice" if twice else "the columns question and answer are expected"
        raise InputError(f"{where}: {wrong}, found {', '.join(names)}")
    return names


def _fits(cells: list[str] | InputError, header: list[str]) -> TypeGuard[list[str]]:
    return isinstance(cells, list) and len(cells) == len(header)


def _record(header: list[str], cells: list[str], fractions: Container[str]) -> dict[str, Any] | InputError:
    """The fields of a line; NaN in the place of an empty cell, which is no word about the documents, as None is."""
    if not _fits(cells, header):
        return InputError(f"there are {len(cells)} cells, the header has {len(header)}")
    found = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
    if not found.get("choices"):
        # Of options, an answer is one as they are written.
        found |= {name: cell[:-2] for name, cell in found.items() if cell and name in fractions}
    return {name: cell or _NOTHING for name, cell in found.items()}


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
