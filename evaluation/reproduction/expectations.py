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

Commands that have to run before it, such as one that compiles a program into ``{folder}``, stand under ``first``. A
case is trusted as a Makefile is; what its commands write lies in ``{folder}``, so that none overwrites other work.
"""

from __future__ import annotations

import re
import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from keqa.errors import InputError
from keqa.evaluation.reports.questions import MEASURES
from keqa.storage.untrusted import plain

FOLDER = "{folder}"
"""Stands in a command for the folder of its run files."""

_ENDING = ".yaml"
_COMMANDS = ("ask", "compare", "compile", "demo", "documents", "evaluate", "testbed")
# Those that write a file, by default in the working folder.
_WRITING = ("compare", "compile", "documents", "evaluate")
_OUTPUT = re.compile(r"(--out|--work|-o)=?(.*)")


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


FileName = Annotated[str, Field(max_length=200, pattern=r"^[^/\\:.][^/\\:]*$")]
"""The name of a file of the case's folder, without its ending."""


class Expected(_Read):
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
        for command in [commands] if isinstance(commands, str) else commands:
            _check_command(command)
        return commands


def case_names() -> list[str]:
    """The names of the cases that come with this version."""
    return sorted(file.name.removesuffix(_ENDING) for file in _shipped().iterdir() if file.name.endswith(_ENDING))


def load_case(name: str) -> Case:
    """Load a case by its name, or a file of the user's own by its path."""
    if name.endswith((_ENDING, ".yml")):
        return read_case(Path(name))
    if name not in case_names():
        raise InputError(
            f"there is nothing called {name!r} to reproduce. There are {', '.join(case_names())}, and paper; a YAML "
            "file of your own is given by its path"
        )
    return read_case(_shipped() / f"{name}{_ENDING}")


def read_case(file: Path | Traversable) -> Case:
    """Read a case; an `InputError` names file and line of what is malformed."""
    try:
        text = file.read_text(encoding="utf-8")
        node, value = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}") from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}" if mark is not None else str(file)
        raise InputError(f"{place}: {' '.join(str(getattr(error, 'problem', None) or error).split())}") from error
    if not isinstance(value, dict):
        raise InputError(f"{file}, line 1: what, command and figures are expected")
    try:
        return Case.model_validate({**value, "name": file.name.rpartition(".")[0]})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        line = _line_of(node, problem["loc"])
        raise InputError(f"{file}, line {line}: {where + ': ' if where else ''}{plain(problem['msg'])}") from error


def _check_command(command: str) -> None:
    """Refuse what is no command of KEQA's to measure with, or would write elsewhere than into the case's folder."""
    words = shlex.split(command)
    if len(words) < 2 or words[0] != "keqa" or words[1] not in _COMMANDS:
        raise ValueError(f"a command is 'keqa …' with one of {', '.join(_COMMANDS)}")
    found = [(_OUTPUT.fullmatch(word), after) for word, after in zip(words, [*words[1:], ""], strict=True)]
    outputs = {match[1]: match[2] or after for match, after in found if match is not None}
    for option, value in outputs.items():
        first, *rest = value.split("/")
        if first != FOLDER or ".." in rest:
            raise ValueError(f"{option} {value} is elsewhere; a case writes into {FOLDER}")
    if words[1] in _WRITING and not outputs.keys() & {"-o", "--out"}:
        raise ValueError(f"keqa {words[1]} needs --out {FOLDER}, for a case writes nowhere else")


def _line_of(node: Any, place: tuple[int | str, ...]) -> int:
    """The line of a value, or of the nearest part around it that is there."""
    for step in place:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
        elif isinstance(node, yaml.MappingNode):
            inner = next((value for name, value in node.value if name.value == step), None)
            if inner is None:
                break
            node = inner
    return int(node.start_mark.line) + 1


def _shipped() -> Traversable:
    return files("keqa.evaluation.reproduction") / "expected"
