"""The figures that papers print, to stand beside those of a run: a YAML file each in `papers`."""

from functools import cache
from importlib.resources import files
from typing import Any

import yaml  # type: ignore[import-untyped]


@cache
def paper(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((files(__package__) / "papers" / f"{name}.yaml").read_text("utf-8"))
    return found


@cache
def published(name: str, table: str) -> dict[tuple[str, ...], Any]:
    """A table of a paper: each figure that it prints by the names of its row and of its column."""
    found = paper(name)[table]
    return {
        (*row.split(" | "), *column): value
        for row, values in found["rows"].items()
        for column, value in zip(found["columns"], values, strict=True)
        if value is not None
    }


def datasets(name: str) -> tuple[str, ...]:
    """The data sets of a paper's first table, by the names under which they are loaded, in its order."""
    return tuple(dict.fromkeys(column[0] for column in paper(name)["table1"]["columns"]))
