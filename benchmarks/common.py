"""What the benchmarks share: the servers of the tests, the shared data, finished work, and how figures are written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from keqa.evaluation.demo import MethodResult
    from keqa.metrics.significance import Interval

__all__ = ["DATA", "Lines", "gain_table", "interval"]

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / ".." / "shared" / "data"
"""The benchmarks' files, where they are beside this repository."""

if str(ROOT / "tests") not in sys.path:
    sys.path.insert(0, str(ROOT / "tests"))


class Lines:
    """Finished work in a file of JSON lines; a later start resumes behind the last whole one."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            # A kill cut the last line off.
            path.write_text(whole, encoding="utf-8")
        self._path = path
        self.done: list[dict[str, Any]] = [json.loads(line) for line in whole.splitlines() if line]

    def add(self, line: dict[str, Any]) -> None:
        """Write a line, which is on the disk when this returns."""
        with self._path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        self.done.append(line)


def interval(found: Interval, form: str = ".2f") -> str:
    """A mean with the interval that it lies in."""
    mean, low, high = (format(value, form) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def gain_table(before: MethodResult, after: MethodResult, **columns: Callable[[MethodResult], str]) -> Table:
    """F1 and exact match of two programs on the same questions, and what the second gains."""
    names = [name.replace("_", " ") for name in columns]
    title = f"{len(before.f1_scores)} test questions"
    table = Table("program", "F1", "EM", "gain in F1", *names, title=title)
    for row, gain in ((before, ""), (after, interval(before.f1_less(after), "+.2f"))):
        table.add_row(row.method, interval(row.f1), interval(row.em), gain, *(cell(row) for cell in columns.values()))
    return table
