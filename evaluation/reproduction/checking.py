"""Running a command again, and its figures beside those that are expected."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keqa.errors import InputError
from keqa.evaluation.reports.questions import brief_of, measure
from keqa.evaluation.reproduction.expectations import FOLDER, Case, Expected
from keqa.evaluation.run_file import iter_lines

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Checked:
    """A figure of a case, and what came out; None where nothing did, with the problem."""

    case: str
    figure: Expected
    measured: float | None
    problem: str = ""

    @property
    def difference(self) -> float | None:
        """Measured less expected."""
        return None if self.measured is None else self.measured - self.figure.expected

    @property
    def reproduced(self) -> bool:
        """Whether it is as near as it should be."""
        return self.difference is not None and abs(self.difference) <= self.figure.tolerance + _ROUNDING


def check(case: Case, folder: Path) -> list[Checked]:
    """Run a case's commands, which resume in their folder, and measure its figures; none where one ends otherwise."""
    for command, exit_code in [*((first, 0) for first in case.first), (case.command, case.exit_code)]:
        words = [word.replace(FOLDER, str(folder)) for word in shlex.split(command)]
        # What a user would type, but with this interpreter's KEQA, whichever stands first on the path.
        started = [sys.executable, "-m", "keqa", *words[1:]]
        ended = subprocess.run(started, stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
        if ended.returncode != exit_code:
            problem = f"{' '.join(words[:2])} ended with exit code {ended.returncode}, not {exit_code}"
            return [Checked(case.name, figure, None, problem) for figure in case.figures]
    return list(_measured(case, ended.stdout, folder))


def find(value: Any, place: str) -> float:
    """The number at a place of a JSON value: names, positions and name=value (several with &), with slashes between."""
    found = value
    for step in place.split("/"):
        wanted = [part.partition("=") for part in step.split("&")]
        try:
            if isinstance(found, list) and all(equals for _, equals, _ in wanted):
                found = next(one for one in found if isinstance(one, dict) and _has(one, wanted))
            else:
                found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, ValueError, TypeError, StopIteration):
            raise InputError(f"what the command printed has nothing at {place}: {step} is not there") from None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"what the command printed at {place} is no number")
    return float(found)


def _has(value: dict[str, Any], wanted: Sequence[tuple[str, str, str]]) -> bool:
    return all(str(value.get(name)) == text for name, _, text in wanted)


def _measured(case: Case, output: bytes, folder: Path) -> Iterator[Checked]:
    printed: Any = None
    for figure in case.figures:
        try:
            if figure.run is not None or figure.table is not None:
                yield Checked(case.name, figure, (_of_table if figure.run is None else _of_run)(figure, folder))
                continue
            if printed is None:
                printed = json.loads(output)
            yield Checked(case.name, figure, find(printed, str(figure.at)))
        except ValueError:
            yield Checked(case.name, figure, None, "what the command printed is not JSON")
        except InputError as error:
            yield Checked(case.name, figure, None, str(error))


def _of_run(figure: Expected, folder: Path) -> float:
    lines = iter_lines(folder / f"{figure.run}.jsonl")
    chosen = [brief_of(line) for line in lines if not figure.kind or line.kind == figure.kind]
    value = measure(str(figure.measure), chosen)
    if value is None:
        kind = f" of the kind {figure.kind!r}" if figure.kind else ""
        raise InputError(f"{figure.run} has no {figure.measure}{kind}")
    return value


def _of_table(figure: Expected, folder: Path) -> float:
    path = folder / "report" / f"{figure.table}.csv"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            heading, *rows = list(csv.reader(stream))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    wanted = figure.row if isinstance(figure.row, list) else [str(figure.row)]
    found = [row for row in rows if len(row) > len(wanted) and all(map(_same, row, wanted))]
    if len(found) != 1:
        raise InputError(f"{figure.table} has {len(found)} rows {' '.join(map(str, wanted))!r}, not one")
    if figure.column not in heading:
        raise InputError(f"{figure.table} has no column {figure.column!r}; it has {', '.join(heading)}")
    cell = found[0][heading.index(figure.column)]
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"{figure.table} has no number in the column {figure.column!r}") from None


def _same(cell: str, wanted: str | float) -> bool:
    """Whether a cell says what is wanted, a number in whatever way it is written."""
    try:
        return float(cell) == float(wanted)
    except ValueError:
        return cell == wanted
