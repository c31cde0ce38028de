"""What this version should reproduce: small YAML files, each a command with the figures that it is expected to give.

docs/commands.md shows one. A figure is a measure of a run file that the command writes into ``{folder}``; a cell of a
table of ``{folder}/report``, by the first cells of its row and the heading of its column in the CSV file; or a place in
the JSON that the command prints, such as ``at: scores/task=decompose&demonstrations=8/right``. A case is trusted as a
Makefile is; what its commands write lies in ``{folder}``, so that none overwrites other work.
"""

import csv
import json
import os
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from keqa.errors import InputError
from keqa.evaluation.reports.questions import MEASURES, brief_of, measure
from keqa.evaluation.run_file import iter_lines
from keqa.storage.untrusted import reasons

FOLDER = "{folder}"
"""Stands in a command for the folder of its run files."""

_ROUNDING = 1e-9
_ENDING = ".yaml"
_SHIPPED = files("keqa.evaluation.reproduction") / "expected"
_COMMANDS = ("ask", "compare", "compile", "demo", "documents", "evaluate", "testbed")
# Those that write a file, by default in the working folder.
_WRITING = ("compare", "compile", "documents", "evaluate")
_OUTPUTS = ArgumentParser(add_help=False, allow_abbrev=False)
_OUTPUTS.add_argument("--out", "-o", nargs="?", const="")
_OUTPUTS.add_argument("--work", nargs="?", const="")


FileName = Annotated[str, Field(max_length=200, pattern=r"^[^/\\:.][^/\\:]*$")]
"""The name of a file of the case's folder, without its ending."""


class Expected(BaseModel, frozen=True, extra="forbid", strict=True):
    """A figure: its name in the report, where it is found, what it should be, and how far it may be from that."""

    name: str = Field(min_length=1)
    at: str | None = None
    table: FileName | None = None
    row: str | list[str | float] | None = None
    column: str | None = None
    run: FileName | None = None
    measure: str | None = None
    kind: str = ""
    expected: float = Field(allow_inf_nan=False)
    tolerance: float = Field(ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_source(self) -> "Expected":
        sources = [(self.at,), (self.table, self.row, self.column), (self.run, self.measure)]
        given = [source for source in sources if any(part is not None for part in source)]
        if len(given) != 1 or None in given[0]:
            raise ValueError("give either 'at', or 'run' and 'measure', or 'table', 'row' and 'column'")
        if self.kind and self.run is None:
            raise ValueError("'kind' goes with 'run'")
        if self.measure is not None and self.measure not in MEASURES:
            raise ValueError(f"there is no measure {self.measure!r}; there are {', '.join(MEASURES)}")
        return self


class Case(BaseModel, frozen=True, extra="forbid", strict=True):
    """A command as a user would type it, how it ends, and what it is expected to give."""

    name: str
    what: str = Field(min_length=1)
    command: str
    first: list[str] = Field([], max_length=100)
    exit_code: int = Field(0, ge=0, le=255)
    figures: list[Expected] = Field(min_length=1, max_length=1_000)

    @field_validator("command", "first")
    @classmethod
    def _may_run(cls, commands: str | list[str]) -> str | list[str]:
        """Refuse what is no command to measure with, or would write elsewhere than into the case's folder."""
        for command in [commands] if isinstance(commands, str) else commands:
            words = shlex.split(command)
            if words[:1] != ["keqa"] or not {*words[1:2]} & {*_COMMANDS}:
                raise ValueError(f"a command is 'keqa …' with one of {', '.join(_COMMANDS)}")
            outputs = vars(_OUTPUTS.parse_known_args(words)[0])
            for option, value in outputs.items():
                first, *rest = (FOLDER if value is None else value).split("/")
                if first != FOLDER or ".." in rest:
                    raise ValueError(f"--{option} {value} is elsewhere; a case writes into {FOLDER}")
            if words[1] in _WRITING and outputs["out"] is None:
                raise ValueError(f"keqa {words[1]} needs --out {FOLDER}, for a case writes nowhere else")
        return commands


class Checked(NamedTuple):
    """A figure of a case, and what came out; None where nothing did, with the problem."""

    case: str
    figure: Expected
    measured: float | None
    problem: str = ""

    @property
    def difference(self) -> float | None:
        return None if self.measured is None else self.measured - self.figure.expected

    @property
    def reproduced(self) -> bool:
        return self.difference is not None and abs(self.difference) <= self.figure.tolerance + _ROUNDING


def case_names() -> list[str]:
    return sorted(file.name.removesuffix(_ENDING) for file in _SHIPPED.iterdir() if file.name.endswith(_ENDING))


def load_case(name: str) -> Case:
    """Load a case by its name, or a file of the user's own by its path."""
    if name.endswith((_ENDING, ".yml")):
        return read_case(Path(name))
    if name not in case_names():
        raise InputError(
            f"there is nothing called {name!r} to reproduce. There are {', '.join(case_names())}, and paper; a YAML "
            "file of your own is given by its path"
        )
    return read_case(_SHIPPED / f"{name}{_ENDING}")


def read_case(file: Path | Traversable) -> Case:
    """Read a case; an `InputError` names file and line of what is malformed."""
    try:
        text = file.read_text(encoding="utf-8")
        node, value = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}" if mark is not None else str(file)
        raise InputError(f"{place}: {' '.join(str(getattr(error, 'problem', None) or error).split())}") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}, line 1: what, command and figures are expected")
    try:
        return Case.model_validate({**value, "name": file.name.rpartition(".")[0]})
    except ValidationError as error:
        line = _line_of(node, error.errors()[0]["loc"])
        raise InputError(f"{file}, line {line}: {reasons(error)}") from error


def _line_of(node: Any, place: tuple[int | str, ...]) -> int:
    """The line of a value, or of the nearest part around it that is there."""
    for step in place:
        inner = dict(enumerate(node.value)) if isinstance(node, yaml.SequenceNode) else {}
        if isinstance(node, yaml.MappingNode):
            inner = {name.value: value for name, value in node.value}
        if step not in inner:
            break
        node = inner[step]
    return int(node.start_mark.line) + 1


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
    return [_checked(case.name, figure, ended.stdout, folder) for figure in case.figures]


def _checked(case: str, figure: Expected, output: bytes, folder: Path) -> Checked:
    try:
        if figure.run is not None:
            return Checked(case, figure, _of_run(figure, folder))
        if figure.table is not None:
            return Checked(case, figure, _of_table(figure, folder))
        return Checked(case, figure, find(json.loads(output), str(figure.at)))
    except InputError as error:
        return Checked(case, figure, None, str(error))
    except ValueError:
        return Checked(case, figure, None, "what the command printed is not JSON: 'at' wants --json")


def find(value: Any, place: str) -> float:
    """The number at a place of a JSON value: names, positions and name=value (several with &), with slashes between."""
    found = value
    for step in place.split("/"):
        wanted = dict(part.split("=", 1) for part in step.split("&") if "=" in part)
        try:
            if isinstance(found, list) and wanted:
                alike = (one for one in found if isinstance(one, dict) and wanted.items() <= _written(one))
                found = next(alike)
            else:
                found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, ValueError, TypeError, StopIteration):
            raise InputError(f"what the command printed has nothing at {place}: {step} is not there") from None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise InputError(f"what the command printed at {place} is no number")
    return float(found)


def _written(value: dict[str, Any]) -> set[tuple[str, str]]:
    return {(name, str(one)) for name, one in value.items()}


def _of_run(figure: Expected, folder: Path) -> float:
    lines = iter_lines(folder / f"{figure.run}.jsonl")
    # A question of several kinds counts in each, as in tables.
    asked = [brief_of(one) for one in lines if figure.kind in ("", one.kind, *one.kind.split("; "))]
    value = measure(str(figure.measure), asked)
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
    try:
        return float(found[0][heading.index(figure.column)])
    except ValueError:
        raise InputError(f"{figure.table} has no number in the column {figure.column!r}") from None


def _same(cell: str, wanted: str | float) -> bool:
    """Whether a cell says what is wanted, a number in whatever way it is written."""
    try:
        return float(cell) == float(wanted)
    except ValueError:
        return cell == wanted
