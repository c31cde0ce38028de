"""What this version should reproduce: small YAML files, each a command with the figures that it is expected to give.

::

    what: KEQA is ahead of always retrieving on the testbed
    command: keqa compare keqa rag --testbed --limit 60 --out {folder}
    figures:
      - {name: F1 of KEQA, run: keqa, measure: f1, expected: 0.58, tolerance: 0.05}
      - {name: EM on bridges, run: keqa, measure: em, kind: bridge, expected: 0.4, tolerance: 0.1}
      - {name: its lead, table: table1, row: SlimPLM, column: KEQA's lead in F1 mean, expected: 0.1, tolerance: 0.1}

A figure is one of

* a measure of a run file that the command writes into ``{folder}``;
* a cell of a table of ``{folder}/report``, by the first cell of its row (or a list of the first ones, for the points of
  a figure) and the heading of its column, as in the table's CSV file;
* a place in the JSON that the command prints, such as ``at: rows/method=KEQA/f1/mean``, or
  ``at: scores/task=decompose&demonstrations=8/right`` where one name is not enough.

Commands that have to run before it, such as one that compiles a program into ``{folder}``, stand under ``first``. What
a command may be, `keqa.evaluation.reproduction.case_commands` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from keqa.errors import InputError
from keqa.evaluation.reports.questions import MEASURES
from keqa.evaluation.reproduction.bounded_yaml import line_of, read_mapping
from keqa.evaluation.reproduction.case_commands import FOLDER, check_command
from keqa.storage.untrusted import plain

_ENDING = ".yaml"


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


FileName = Annotated[str, Field(max_length=200, pattern=r"^[^/\\:.][^/\\:]*$")]
"""The name of a file of the case's folder, without its ending."""


class Expected(_Read):
    """A figure.

    Attributes:
        name: What it is called in the report.
        at: Its place in the JSON that the command prints: names, positions and name=value, with slashes between.
        table: Or the table of the report that holds it, such as ``table1`` or ``figure4-points``.
        row: The first cell of the table's row, or the first ones.
        column: The heading of its column.
        run: Or the run file that it is measured on.
        measure: One of `keqa.evaluation.reports.questions.MEASURES`.
        kind: Of the run's questions, those of this kind only.
        expected: What it should be.
        tolerance: How far it may be from that.
    """

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
    def _one_source(self) -> Expected:
        of_table, of_run = (self.table, self.row, self.column), (self.run, self.measure)
        sources = [(self.at,), of_table, of_run]
        given = [source for source in sources if any(part is not None for part in source)]
        if len(given) != 1 or None in given[0]:
            raise ValueError("give either 'at', or 'run' and 'measure', or 'table', 'row' and 'column'")
        if self.kind and self.run is None:
            raise ValueError("'kind' goes with 'run'")
        if self.measure is not None and self.measure not in MEASURES:
            raise ValueError(f"there is no measure {self.measure!r}; there are {', '.join(MEASURES)}")
        return self


class Case(_Read):
    """A command and what it is expected to give.

    Attributes:
        name: The file's name without its ending.
        what: What it shows, in a sentence.
        command: As a user would type it.
        first: Commands that run before it.
        exit_code: How the command ends.
        figures: What is expected.
    """

    name: str
    what: str = Field(min_length=1)
    command: str
    first: list[str] = Field([], max_length=100)
    exit_code: int = Field(0, ge=0, le=255)
    figures: list[Expected] = Field(min_length=1, max_length=1_000)

    @field_validator("command", "first")
    @classmethod
    def _may_run(cls, commands: str | list[str], info: ValidationInfo) -> str | list[str]:
        for command in [commands] if isinstance(commands, str) else commands:
            check_command(command, info.context or {})
        return commands

    @model_validator(mode="after")
    def _writes_runs(self) -> Case:
        if any(figure.run or figure.table for figure in self.figures) and FOLDER not in self.command:
            raise ValueError(f"figures of run files and tables need a command with {FOLDER} in it")
        return self


def case_names() -> list[str]:
    """The names of the cases that come with this version."""
    return sorted(file.name.removesuffix(_ENDING) for file in _shipped().iterdir() if file.name.endswith(_ENDING))


def load_case(name: str, given: Mapping[str, Sequence[str]] | None = None) -> Case:
    """Load a case by its name, or a file of the user's own by its path.

    Args:
        name: See above.
        given: See `read_case`.

    Raises:
        InputError: There is no such case, or its file is malformed; the message names file and line.
    """
    if name.endswith((_ENDING, ".yml")):
        return read_case(Path(name), given)
    if name not in case_names():
        raise InputError(
            f"there is nothing called {name!r} to reproduce. There are {', '.join(case_names())}, and paper; a YAML "
            "file of your own is given by its path"
        )
    return read_case(_shipped() / f"{name}{_ENDING}")


def read_case(file: Path | Traversable, given: Mapping[str, Sequence[str]] | None = None) -> Case:
    """Read a case.

    Args:
        file: The file.
        given: By option, the values that commands of the case may use because the user gives them; see
            `keqa.evaluation.reproduction.case_commands`.

    Raises:
        InputError: The file cannot be read or is malformed; the message names file and line.
    """
    value, node = read_mapping(file, "what, command and figures are expected")
    try:
        return Case.model_validate({**value, "name": file.name.rpartition(".")[0]}, context=dict(given or {}))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        reason = plain(problem["msg"])
        line = line_of(node, problem["loc"])
        raise InputError(f"{file}, line {line}: {where + ': ' if where else ''}{reason}") from error


def _shipped() -> Traversable:
    return files("keqa.evaluation.reproduction") / "expected"
