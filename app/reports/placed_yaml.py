"""YAML whose values know the lines that they stand on, so that what is wrong with one can be told."""

from __future__ import annotations

from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from keqa.errors import InputError

__all__ = ["compose", "line_of", "value_of"]


def compose(file: Path | Traversable, expected: str) -> Any:
    """The node of a file that holds a mapping.

    Args:
        file: The file.
        expected: What is told of a file that holds something else.

    Raises:
        InputError: The file cannot be read, or holds something else; the message names file and line.
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
        raise InputError(f"{file}, line 1: {expected}")
    return node


def value_of(node: Any, file: Path | Traversable) -> Any:
    """The plain value of a node. A name that is there twice is refused, which YAML's own loader passes over."""
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for name, inner in node.value:
            if name.value in found:
                raise InputError(f"{file}, line {name.start_mark.line + 1}: {name.value} is there twice")
            found[str(name.value)] = value_of(inner, file)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [value_of(inner, file) for inner in node.value]
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{file}, line {node.start_mark.line + 1}: {error}") from error


def line_of(node: Any, place: tuple[int | str, ...]) -> int:
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
