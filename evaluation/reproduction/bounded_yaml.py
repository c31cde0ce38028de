"""YAML of a stranger, and the line of each of its values, so that an error can name it.

Only what a list of figures needs is read: plain values, lists and mappings, bounded in size, number and depth, with no
alias (of which a few lines unfold to gigabytes) and no tag.
"""

from __future__ import annotations

import os
import unicodedata
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from keqa.errors import InputError
from keqa.storage.untrusted import read_file

_MOST_BYTES = 1 << 20
_MOST_NODES = 20_000
_DEEPEST = 16
_LONGEST_VALUE = 10_000
# Controls and formats, of which a terminal makes colours, links and texts that run backwards.
_UNSHOWN = {"Cc", "Cf", "Cs"}


def read_mapping(file: Path | Traversable, expected: str) -> tuple[dict[str, Any], Any]:
    """Read a file that holds a mapping.

    Args:
        file: The file.
        expected: The message for a file that holds something else.

    Returns:
        The mapping, and the node that `line_of` takes.

    Raises:
        InputError: The file cannot be read, is no regular file, has more in it than such a file needs, or holds
            something else; the message names file and line.
    """
    try:
        loader = _Loader(_content(file).decode("utf-8"))
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise InputError(f"{file}, line 1: {expected}")
        return loader.construct_document(node), node
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}" if mark is not None else str(file)
        raise InputError(f"{place}: {' '.join(str(getattr(error, 'problem', None) or error).split())}") from error


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


def _content(file: Path | Traversable) -> bytes:
    if not isinstance(file, Path):
        return file.read_bytes()
    # Links are followed: the user names the file.
    there = os.path.realpath(file)
    try:
        return read_file(os.path.dirname(there), os.path.basename(there), _MOST_BYTES, error=InputError)
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from error


class _Loader(yaml.SafeLoader):
    """Refuses what is beyond the bounds before anything of it is built."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._count = self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        self._count += 1
        self._depth += isinstance(event, yaml.CollectionStartEvent)
        if (problem := self._beyond(event)) is not None:
            raise _refused(problem, event)
        node = super().compose_node(parent, index)
        self._depth -= isinstance(event, yaml.CollectionStartEvent)
        return node

    def _beyond(self, event: Any) -> str | None:
        if event.anchor is not None:
            return "anchors and aliases (& and *) are not read; write the value out"
        if event.tag not in (None, "!"):
            return f"tags are not read, such as {event.tag!a}"
        if self._depth > _DEEPEST:
            return f"it is nested more than {_DEEPEST} levels deep"
        if self._count > _MOST_NODES:
            return f"it holds more than {_MOST_NODES:,} values"
        value = getattr(event, "value", "")
        if len(value) > _LONGEST_VALUE:
            return f"a value has more than {_LONGEST_VALUE:,} characters"
        if any(unicodedata.category(char) in _UNSHOWN and char not in "\n\t" for char in value):
            return "a value has control characters in it"
        return None

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """A name that is there twice is refused, which YAML's own loader passes over."""
        found: dict[str, Any] = {}
        for name, inner in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise _refused("a name is expected before the colon", name)
            if name.value in found:
                raise _refused(f"{name.value} is there twice", name)
            found[name.value] = self.construct_object(inner, deep=deep)
        return found

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, OverflowError) as error:
            raise _refused(str(error), node) from error


def _refused(problem: str, place: Any) -> Exception:
    error: Exception = yaml.MarkedYAMLError(problem=problem, problem_mark=place.start_mark)
    return error
