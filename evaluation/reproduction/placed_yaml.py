"""YAML whose values know the lines that they stand on, so that an error can name it.

A file may come from a stranger, so only what a list of figures needs is read: plain values, lists and mappings, bounded
in size, number and depth, with no alias (of which a few lines unfold to gigabytes) and no tag.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from keqa.errors import InputError
from keqa.storage.untrusted import open_regular

__all__ = ["compose", "line_of", "value_of"]

_MOST_BYTES = 1 << 20
_MOST_NODES = 20_000
_DEEPEST = 16
_LONGEST_VALUE = 10_000
# Controls and formats, of which a terminal makes colours, links and texts that run backwards.
_UNSHOWN = {"Cc", "Cf", "Cs"}


def compose(file: Path | Traversable, expected: str) -> Any:
    """The node of a file that holds a mapping.

    Args:
        file: The file.
        expected: The message for a file that holds something else.

    Raises:
        InputError: The file cannot be read, is no regular file, has more in it than such a file needs, or holds
            something else; the message names file and line.
    """
    try:
        text = _content(file).decode("utf-8")
        _check(text, file)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}" if mark is not None else str(file)
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{place}: {reason}") from error
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{file}, line 1: {expected}")
    return node


def value_of(node: Any, file: Path | Traversable) -> Any:
    """The plain value of a node. A name that is there twice is refused, which YAML's own loader passes over.

    Raises:
        InputError: That is so, or a value is none; the message names file and line.
    """
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for name, inner in node.value:
            if not isinstance(name, yaml.ScalarNode):
                raise _refused(file, name, "a name is expected before the colon")
            if name.value in found:
                raise _refused(file, name, f"{name.value} is there twice")
            found[str(name.value)] = value_of(inner, file)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [value_of(inner, file) for inner in node.value]
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise _refused(file, node, " ".join(str(error).split())) from error


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
    try:
        with open_regular(file, links=True, error=InputError) as stream:
            content = stream.read(_MOST_BYTES + 1)
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from error
    if len(content) > _MOST_BYTES:
        raise InputError(f"{file} has more than {_MOST_BYTES:,} bytes, which no list of figures needs")
    return content


def _check(text: str, file: Path | Traversable) -> None:
    """Refuse what is beyond the bounds, before anything of the file is built."""
    depth = 0
    for count, event in enumerate(_events(text), start=1):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise _refused(file, event, "anchors and aliases (& and *) are not read; write the value out")
        if getattr(event, "tag", None) not in (None, "!"):
            raise _refused(file, event, f"tags are not read, such as {event.tag!a}")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _refused(file, event, f"it is nested more than {_DEEPEST} levels deep")
        if count > _MOST_NODES:
            raise _refused(file, event, f"it holds more than {_MOST_NODES:,} values")
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > _LONGEST_VALUE:
                raise _refused(file, event, f"a value has more than {_LONGEST_VALUE:,} characters")
            if any(unicodedata.category(char) in _UNSHOWN and char not in "\n\t" for char in event.value):
                raise _refused(file, event, "a value has control characters in it")


def _events(text: str) -> Iterator[Any]:
    events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)
    return events


def _refused(file: Path | Traversable, node: Any, reason: str) -> InputError:
    return InputError(f"{file}, line {node.start_mark.line + 1}: {reason}")
