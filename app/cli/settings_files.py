"""Defaults of options from files: one of the user's and one of the folder in which a command runs.

A file of a folder may come from a stranger with the rest of the folder, and the user's key goes to whatever address a
language model has. So it may name servers of this machine only, and set nothing that says what is written or who may
ask; the rest belongs in the user's own file or in variables.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

from keqa.errors import InputError

NAME = "keqa.toml"
"""Of the files."""

VARIABLE = "KEQA_CONFIG"
"""The variable that may name a file instead of the user's own."""

_LARGEST = 100_000
_OF_FOLDERS = frozenset(
    """
    lm consistency_lm utility_lm api_base consistency_api_base utility_api_base max_tokens timeout no_cache
    index program retriever tries threshold temperature top_k k no_decompose no_examine no_pick select unanswered
    no_look_first answer_type split sample seed limit in_flight stop_after_outages waiting rate max_body grace port
    language
    """.split()
)
_SECRET = ("key", "token", "password", "secret")


@dataclass(frozen=True)
class Setting:
    """A value of a file.

    Attributes:
        command: The command that it is for, such as ``ask`` or ``index info``; empty where it is for all.
        name: The option, as its parameter is called.
        value: As the file has it.
        place: The file.
    """

    command: str
    name: str
    value: Any
    place: Path


def user_file() -> Path:
    """The user's own file, whether it is there or not."""
    import platformdirs

    return Path(os.environ.get(VARIABLE) or platformdirs.user_config_path("keqa") / NAME)


def settings(root: TyperGroup) -> list[Setting]:
    """What the files set, those of the folder after the user's own.

    Args:
        root: All commands, whose options may be set.

    Raises:
        InputError: A file cannot be read, or sets what it may not.
    """
    own, here = user_file(), Path(NAME)
    if os.environ.get(VARIABLE) and not own.exists():
        raise InputError(f"{VARIABLE} names {own}, which is missing")
    found = list(_read(own, root)) if own.exists() else []
    if here.exists() and not (own.exists() and here.samefile(own)):
        for one in _read(here, root):
            _refuse_elsewhere(one)
            found.append(one)
    return found


def defaults(root: TyperGroup) -> dict[str, Any]:
    """What the files set, as the defaults of the commands; see ``typer.Context.default_map``.

    Args:
        root: All commands.

    Raises:
        InputError: As for `settings`.
    """
    made: dict[str, Any] = {}
    given = settings(root)
    for path, command in _commands(root):
        at = made
        for part in path:
            at = at.setdefault(part, {})
        many = {option.name: option.multiple for option in _options(command).values()}
        # What is for one command goes before what is for all.
        for one in sorted(given, key=lambda one: bool(one.command)):
            if one.command in ("", " ".join(path)) and one.name in many:
                value = one.value
                at[one.name] = [value] if many[one.name] and not isinstance(value, list) else value
    return made


def _read(path: Path, root: TyperGroup) -> Iterator[Setting]:
    try:
        data = path.read_bytes()
        if len(data) > _LARGEST:
            raise InputError(f"{path} has more than {_LARGEST:,} bytes: it is no file of settings")
        values = tomllib.loads(data.decode())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    yield from _of(values, (), path, root)


def _of(values: Mapping[str, Any], command: tuple[str, ...], path: Path, root: TyperGroup) -> Iterator[Setting]:
    commands = dict(_commands(root))
    groups = {at[: len(at) - 1] for at in commands}
    for key, value in values.items():
        if isinstance(value, dict):
            inner = (*command, key)
            if inner not in commands and inner not in groups:
                raise InputError(f"{path}: there is no command keqa {' '.join(inner)}")
            yield from _of(value, inner, path, root)
            continue
        name = key.replace("-", "_")
        here = [commands[command]] if command in commands else [one for at, one in commands.items() if not command]
        known = {option for one in here for option in _options(one)}
        where = f"keqa {' '.join(command)} has" if command else "any command has"
        if any(word in name for word in _SECRET) and name not in known:
            raise InputError(f"{path}: {key} is not read from a file: keys and tokens are variables of the environment")
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"; is {near[0].replace('_', '-')} meant?" if near else ""
            raise InputError(f"{path}: no option that {where} is called {key}{meant}")
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, str | int | float) for part in parts):
            raise InputError(f"{path}: {key} must be a text, a number, true or false, or a list of these")
        # No shell has read the file, which would have put one's own folder in its place.
        own = [os.path.expanduser(part) if str(part).startswith("~/") else part for part in parts]
        yield Setting(" ".join(command), name, own if isinstance(value, list) else own[0], path)


def _refuse_elsewhere(one: Setting) -> None:
    from urllib.parse import urlsplit

    if one.name not in _OF_FOLDERS:
        raise InputError(f"{one.place}: {one.name} may not be set by the file of a folder: put it into {user_file()}")
    for part in one.value if isinstance(one.value, list) else [one.value]:
        for text in str(part).split(","):
            address = urlsplit(text.strip()) if "://" in text else None
            if one.name.endswith("api_base") and address is None:
                address = urlsplit(f"//{text.strip()}")
            if address is not None and address.hostname not in ("localhost", "127.0.0.1", "::1"):
                raise InputError(
                    f"{one.place}: {one.name} names a server elsewhere, to which your key would be sent. In the file "
                    f"of a folder only servers of this machine may stand: put it into {user_file()}, or set "
                    "KEQA_API_BASE or KEQA_INDEX"
                )


def _commands(group: TyperGroup, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, (*at, name))
        elif isinstance(command, TyperCommand):
            yield (*at, name), command


def _options(command: TyperCommand) -> dict[str, TyperOption]:
    """The options of a command that can have a default, by the names of their parameters."""
    found = [one for one in command.params if isinstance(one, TyperOption) and one.name not in (None, "help")]
    return {str(one.name): one for one in found}
