"""The command that runs, as it may be kept: without secrets and addresses, and no folder of this machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path, PureWindowsPath
from typing import Any, get_args

from typer.models import ArgumentInfo

from keqa.cli.options.values import flag_of

_ADDRESS = "<address>"
_invocation: ContextVar[str] = ContextVar("invocation", default="keqa")


@dataclass(frozen=True)
class Places:
    """Beside an option whose text names folders or files: the characters that stand between them, or before one."""

    between: str


Server = Places("")
"""Beside an option that is the address of a server."""


def invocation() -> str:
    """The command that runs, without secrets and addresses; of a folder or file outside, only the last component."""
    return _invocation.get()


def keep_invocation(command: str, parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> None:
    """Let `invocation` give a command from now on.

    Args:
        command: Its name.
        parameters: Its arguments and options, annotated with their markers.
        values: What they were given.
    """
    _invocation.set(_written(command, parameters, values))


def _written(command: str, parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> str:
    """A command as it may be kept."""
    arguments: list[str] = []
    options: list[str] = []
    for name, parameter in parameters.items():
        _, *beside = get_args(parameter.annotation) or (None,)
        place = next((mark for mark in beside if isinstance(mark, Places)), None)
        value = values[name]
        if value is None or value == parameter.default or value == []:
            continue
        texts = [_shareable(one, place) for one in (value if isinstance(value, list) else [value])]
        if any(isinstance(mark, ArgumentInfo) for mark in beside):
            arguments += texts
        elif value is True:
            options.append(flag_of(name))
        else:
            options += [part for text in texts for part in (flag_of(name), text)]
    return shlex.join(["keqa", command, *arguments, *options])


def _shareable(value: Any, place: Places | None) -> str:
    from keqa.storage.redaction import without_secrets

    if isinstance(value, Path):
        return value.name or str(value)
    if place is Server:
        return _ADDRESS
    text = str(without_secrets(str(value)))
    if place is None:
        return text
    if place.between == "/":
        # The name of a model may hold the same: only what follows the provider can be a path.
        provider, slash, rest = text.partition("/")
        return provider + slash + _last(rest)
    return "".join(map(_last, re.split(f"([{place.between}])", text)))


def _last(text: str) -> str:
    """An absolute path by its last component alone; whatever else as it is."""
    if text.startswith("documents:"):
        return "documents:" + _last(text.removeprefix("documents:"))
    path = PureWindowsPath(text)
    return path.name if path.root or text.startswith("~") else text
