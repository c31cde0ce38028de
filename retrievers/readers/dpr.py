"""DPR's passage file: ``psgs_w100.tsv`` with the columns id, text and title (Karpukhin et al., 2020)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from keqa.errors import InputError
from keqa.retrievers.base import Passage
from keqa.retrievers.readers.common import Notice, read_lines, record_passages

_COLUMNS = ("id", "text", "title")


def read_dpr(path: Path, notice: Notice) -> Iterator[Passage]:
    """Yield the passages of a tab-separated file, quoted as DPR writes it (a quote inside quotes is doubled).

    Raises:
        InputError: The columns are other ones, or a line is malformed.
    """
    numbers = _LineCounter(path)
    rows = csv.reader(numbers, delimiter="\t", strict=True)
    order: list[int] | None = None
    empty = 0
    while True:
        first = numbers.number + 1
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise InputError(f"{path}, line {first}: malformed ({error})") from error
        if row is None:
            break
        if order is None:
            order = _order(path, row)
            continue
        if len(row) != len(order):
            raise InputError(f"{path}, line {first}: {len(order)} columns are expected, {len(row)} were found")
        identifier, text, title = (row[column] for column in order[:3])
        if not identifier.strip():
            raise InputError(f"{path}, line {first}: the id is empty")
        empty += not text.strip()
        yield from record_passages(identifier.strip(), title, text)
    if empty:
        notice(f"{path}: {empty} records without text were left out")


class _LineCounter:
    """Lines of a file that know where they are, because a quoted field may span several."""

    def __init__(self, path: Path) -> None:
        self.number = 0
        self._lines = read_lines(path)

    def __iter__(self) -> Iterator[str]:
        for number, line in self._lines:
            self.number = number
            yield line


def _order(path: Path, header: list[str]) -> list[int]:
    """Return the positions of id, text and title, then those of any further columns."""
    names = [name.strip().lower() for name in header]
    missing = [name for name in _COLUMNS if name not in names]
    if missing:
        found = ", ".join(name[:40] for name in header[:10])
        raise InputError(
            f"{path}, line 1: the columns id, text and title are expected; "
            f"there is no {' and no '.join(missing)} in: {found}"
        )
    wanted = [names.index(name) for name in _COLUMNS]
    return wanted + [position for position in range(len(names)) if position not in wanted]
