"""What this version should reproduce: small YAML files, each a command with the figures that it is expected to give.

::

    what: KEQA is ahead of always retrieving on the testbed
    command: keqa compare keqa rag --testbed --limit 60 --out {folder}
    figures:
      - {name: F1 of KEQA, run: keqa, measure: f1, expected: 0.58, tolerance: 0.05}
      - {name: EM on bridges, run: keqa, measure: em, kind: bridge, expected: 0.4, tolerance: 0.1}

A figure is a measure of a run file that the command writes into ``{folder}``, or a place in the JSON that it prints,
such as ``at: rows/method=KEQA/f1/mean``.
"""

from __future__ import annotations

import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from keqa.errors import InputError
from keqa.reports.measures import MEASURES

__all__ = ["Case", "Expected", "case_names", "load_case", "read_case"]

FOLDER = "{folder}"
"""Stands in a command for the folder of its run files."""

_ENDING = ".yaml"


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Expected(_Read):
    """A figure.

    Attributes:
        name: What it is called in the report.
        at: Its place in the JSON that the command prints: names, positions and name=value, with slashes between.
        run: Or the run file that it is measured on.
        measure: One of `keqa.reports.measures.MEASURES`.
        kind: Of the run's questions, those of this kind only.
        expected: What it should be.
        tolerance: How far it may be from that.
    """

    name: str = Field(min_length=1)
    at: str | None = None
    run: str | None = None
    measure: str | None = None
    kind: str = ""
    expected: float = Field(allow_inf_nan=False)
    tolerance: float = Field(ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _one_source(self) -> Expected:
        if (self.at is None) == (self.run is None) or (self.run is None) != (self.measure is None):
            raise ValueError("give either 'at', or 'run' and 'measure'")
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
        exit_code: How the command ends.
        figures: What is expected.
    """

    name: str
    what: str = Field(min_length=1)
    command: str
    exit_code: int = 0
    figures: list[Expected] = Field(min_length=1)

    @field_validator("command")
    @classmethod
    def _is_keqa(cls, command: str) -> str:
        words = shlex.split(command)
        if len(words) < 2 or words[0] != "keqa" or words[1] == "reproduce":
            raise ValueError("a command is 'keqa …', and not 'keqa reproduce' again")
        return command

    @model_validator(mode="after")
    def _writes_runs(self) -> Case:
        if any(figure.run for figure in self.figures) and FOLDER not in self.command:
            raise ValueError(f"figures of run files need a command with {FOLDER} in it")
        return self


def case_names() -> list[str]:
    """The names of the cases that come with this version."""
    return sorted(file.name.removesuffix(_ENDING) for file in _shipped().iterdir() if file.name.endswith(_ENDING))


def load_case(name: str) -> Case:
    """Load a case by its name, or a file of the user's own by its path.

    Raises:
        InputError: There is no such case, or its file is malformed; the message names file and line.
    """
    if name.endswith((_ENDING, ".yml")):
        return read_case(Path(name))
    if name not in case_names():
        raise InputError(
            f"there is nothing called {name!r} to reproduce. There are {', '.join(case_names())}, and paper; a YAML "
            "file of your own is given by its path"
        )
    return read_case(_shipped() / f"{name}{_ENDING}")


def read_case(file: Path | Traversable) -> Case:
    """Read a case.

    Raises:
        InputError: The file cannot be read or is malformed; the message names file and line.
    """
    try:
        node = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}" if mark is not None else str(file)
        raise InputError(f"{place}: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{file}, line 1: what, command and figures are expected")
    value = _value(node, file)
    try:
        return Case.model_validate({**value, "name": file.name.rpartition(".")[0]})
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        told = problem["msg"].removeprefix("Value error, ")
        line = _line(node, problem["loc"])
        raise InputError(f"{file}, line {line}: {where + ': ' if where else ''}{told}") from error


def _shipped() -> Traversable:
    return files("keqa.reports") / "expected"


def _value(node: Any, file: Path | Traversable) -> Any:
    """The plain value of a node. A name that is there twice is refused, which YAML's own loader passes over."""
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for name, inner in node.value:
            if name.value in found:
                raise InputError(f"{file}, line {name.start_mark.line + 1}: {name.value} is there twice")
            found[str(name.value)] = _value(inner, file)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(inner, file) for inner in node.value]
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{file}, line {node.start_mark.line + 1}: {error}") from error


def _line(node: Any, place: tuple[int | str, ...]) -> int:
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
