"""Corpora of records: JSONL, a JSON list of ``{title, text}``, and DPR's ``psgs_w100.tsv`` (Karpukhin et al., 2020)."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from keqa.errors import InputError
from keqa.retrievers.base import Notice, Passage
from keqa.retrievers.readers.common import csv_rows, decode, malformed, read_lines, record_passages
from keqa.storage.redaction import visible_line

TEXT_NAMES: Final = ("text", "contents", "content", "passage", "paragraph_text", "body")
"""What published corpora call the text of a record, in order of preference."""

TITLE_NAMES: Final = ("title", "name", "heading")
"""What they call its title."""

_ID = ("id", "_id", "doc_id", "docid", "passage_id", "pid")

# Of DPR's file.
_COLUMNS = ("id", "text", "title")

# So many fields that are not read are named; a file may have another one in each record.
_NAMED_FIELDS = 10
_LONGEST_NAME = 40
_MOST_FIELDS = 1000

# FlashRAG keeps the title as the first line of the contents, in quotes.
_QUOTED_TITLE = re.compile(r'"([^"\n]{1,200})"\n')


def read_jsonl(path: Path, notice: Notice) -> Iterator[Passage]:
    """Yield the passages of a file with one JSON object a line; empty lines are passed over."""
    lines = ((f"{path}, line {number}", line) for number, line in read_lines(path) if line.strip())
    return _passages(path, ((where, _parse(line, where)) for where, line in lines), notice)


def json_passages(data: bytes, path: Path, notice: Notice) -> Iterator[Passage]:
    records = _parse(decode(data, str(path), notice).removeprefix("\ufeff"), str(path))
    if not isinstance(records, list):
        raise InputError(f"{path}: a list of objects with title and text is expected, found {type(records).__name__}")
    numbered = ((f"{path}, record {number}", record) for number, record in enumerate(records, start=1))
    return _passages(path, numbered, notice)


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (RecursionError, ValueError) as error:
        # In JSONL the text is one line, which the caller has named; in a JSON file the decoder knows the line.
        of_line = ", line " in where
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) and not of_line else ""
        raise InputError(f"{where}{line}: {malformed(error)}") from error


def _passages(path: Path, records: Iterable[tuple[str, Any]], notice: Notice) -> Iterator[Passage]:
    empty = 0
    unread: dict[str, None] = {}
    for number, (where, record) in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(f"{where}: an object with title and text is expected, found {type(record).__name__}")
        title, text = _title_and_text(record, where)
        own = _identifier(record, where)
        if len(unread) < _MOST_FIELDS:
            read = {_id_name(record), _first(TEXT_NAMES, record), _first(TITLE_NAMES, record)}
            unread.update(dict.fromkeys(record.keys() - read - unread.keys()))
        found = list(record_passages(own or f"{path.name}#{number}", title, text))
        empty += not found
        yield from found
    if empty:
        notice(f"{path}: {empty} records without text were left out")
    if unread:
        named = ", ".join(visible_line(name)[:_LONGEST_NAME] for name in sorted(unread)[:_NAMED_FIELDS])
        more = f" and {len(unread) - _NAMED_FIELDS:,} more" if len(unread) > _NAMED_FIELDS else ""
        notice(
            f"{path}: only the id, the title and the text of a record are read, not {named}{more}; "
            "put into the text what is to be found"
        )


def _id_name(record: Mapping[str, Any]) -> str | None:
    return next((name for name in _ID if record.get(name) is not None), None)


def _first(names: Sequence[str], record: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in record), None)


def _title_and_text(record: Mapping[str, Any], where: str) -> tuple[str, str]:
    name = _first(TEXT_NAMES, record)
    if name is None:
        found = ", ".join(str(key)[:40] for key in list(record)[:10]) or "nothing"
        raise InputError(f"{where}: there is no text; one of {', '.join(TEXT_NAMES)} is expected, found {found}")
    text = _as_text(record[name], where, name)
    title_name = _first(TITLE_NAMES, record)
    if title_name is not None:
        return _as_text(record[title_name], where, title_name), text
    quoted = _QUOTED_TITLE.match(text)
    return (quoted.group(1), text[quoted.end() :]) if quoted else ("", text)


def _as_text(value: Any, where: str, name: str) -> str:
    """Return text, a missing value as empty, and a list of sentences (HotpotQA) as one text."""
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return " ".join(part.strip() for part in value)
    if not isinstance(value, str):
        raise InputError(f"{where}: {name} must be text, found {type(value).__name__}")
    return value


def _identifier(record: Mapping[str, Any], where: str) -> str:
    value = record.get(_id_name(record) or "", "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{where}: the id must be text or a number, found {type(value).__name__}")
    return str(value).strip()


def read_dpr(path: Path, notice: Notice) -> Iterator[Passage]:
    """Yield the passages of a tab-separated file, quoted as DPR writes it (a quote inside quotes is doubled)."""
    return _passages(path, _dpr_records(path), notice)


def _dpr_records(path: Path) -> Iterator[tuple[str, Any]]:
    names: list[str] = []
    for number, row in csv_rows((line for _, line in read_lines(path)), "\t"):
        where = f"{path}, line {number}"
        if isinstance(row, InputError):
            raise InputError(f"{where}: {row}")
        if not names:
            names = _columns(row, where)
        elif len(row) != len(names):
            raise InputError(f"{where}: {len(names)} columns are expected, {len(row)} were found")
        else:
            record = dict(zip(names, row, strict=True))
            if not record["id"].strip():
                raise InputError(f"{where}: the id is empty")
            yield where, record


def _columns(header: list[str], where: str) -> list[str]:
    """The names of the columns, of which id, text and title may have capitals."""
    names = [name.strip() for name in header]
    names = [name.lower() if name.lower() in _COLUMNS else name for name in names]
    if missing := " and no ".join(name for name in _COLUMNS if name not in names):
        found = ", ".join(name[:40] for name in header[:10])
        raise InputError(
            f"{where}: the columns id, text and title are expected; there is no {missing} in: {found}; "
            "another table is read where its file is called .csv"
        )
    return names
