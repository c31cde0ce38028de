"""``keqa config``: what options are set to by files and variables, and where each value comes from."""

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from keqa.cli.console import emit, table
from keqa.cli.declare import argument
from keqa.cli.options import AS_JSON, KeqaOptions
from keqa.errors import InputError, meant
from keqa.storage.files import private_folder
from keqa.storage.redaction import visible_line, without_keys
from keqa.storage.untrusted import open_regular

_NAME, _VARIABLE = "keqa.toml", "KEQA_CONFIG"
"""The name of the files, and the variable that may name another one instead of the user's own."""

_LARGEST = 64 << 10
# In a line: the parser takes quadratic time for keys of many parts.
_MOST_DOTS = 64
_HARMLESS = frozenset(
    """
    max_tokens timeout no_cache index program retriever k answer_type split sample seed limit in_flight
    stop_after_outages waiting grace port language full quiet
    """.split()
) | {one.name for one in fields(KeqaOptions)}
_PATHS = {"index", "program"} | {one.name for one in fields(KeqaOptions) if one.type == Path | None}
_SECRET = ("key", "token", "password", "secret")

_VARIABLES = {"lm": "KEQA_LM", "api_base": "KEQA_API_BASE", "index": "KEQA_INDEX"}
_BUILT_IN = {
    "lm": "keqa/tiny, which ships with KEQA",
    "index": "the testbed's encyclopedia",
    "api_base": "the provider's",
}
_ENDINGS = ("_API_KEY", "_TOKEN", "_API_TOKEN", "_ACCESS_KEY")


def config(
    *,
    context: typer.Context,
    action: Literal["trust"] | None = argument(
        None, "trust: take the keqa.toml of this folder as your own, as it is now.", default=None
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Show what is set where: by keqa.toml, by variables, or built in.

    A keqa.toml holds options by their names, for all commands or in a table for one of them:

        lm = "openai/gpt-4o-mini"
        index = "my-index"
        [ask]
        tries = 7

    One is the user's own (KEQA_CONFIG names another file), and one may be in the folder where a command runs; that
    of the folder goes before. Until keqa config trust has taken it as it is, it may be a stranger's, and what names a
    model, an address or a path outside of the folder is not used; after a change it must be trusted again.
    KEQA_LM, KEQA_API_BASE and KEQA_INDEX take precedence over both, and options over all. Keys and tokens are read from
    the environment only, and are never shown.
    """
    if action == "trust":
        # As it is now; once it is changed or moved, it is a stranger's again.
        mark = _mark(_bytes(Path(_NAME)))
        private_folder(mark.parent)
        mark.touch(mode=0o600)
    rows, file, names = _rows(settings(context.find_root())), user_file(), ("option", "value", "from")
    secrets = sorted(name for name in os.environ if name.endswith(_ENDINGS) and os.environ[name])
    shown = (
        table(names, ([visible_line(row[name]) for name in names] for row in rows), left=range(3)),
        f"Set in the environment, and not shown: {', '.join(secrets) or 'no key'}",
        f"Your own file: {file}{'' if file.exists() else ' (not there)'}",
    )
    emit({"settings": rows, "secrets": secrets, "file": str(file)}, shown, as_json=as_json)


def _rows(found: list[Any]) -> list[dict[str, str]]:
    """Each setting with its value and its place; the last one for an option is the one that holds."""
    rows = {("", name): _row("", name, built_in, "built in") for name, built_in in _BUILT_IN.items()}
    for one in found:
        place = f"{one.place}{'' if one.trusted else ' (not trusted)'}"
        rows[one.command, one.name] = _row(one.command, one.name, ", ".join(map(str, _listed(one.value))), place)
    for name, variable in _VARIABLES.items():
        if os.environ.get(variable):
            # It goes before what files set for a command of its own, too.
            for key in [key for key in rows if key[1] == name]:
                del rows[key]
            rows["", name] = _row("", name, os.environ[variable], variable)
    asked, beside = rows["", "lm"], {one.name: one for one in found if not one.command}
    others = asked["from"] == "KEQA_LM" and "lm" in beside and beside["lm"].value != os.environ["KEQA_LM"]
    if others and rows["", "api_base"]["from"] != "KEQA_API_BASE":
        # The address in a file is that of the language model in it; see `keqa.cli.options`.
        rows["", "api_base"] = _row("", "api_base", _BUILT_IN["api_base"], "built in")
    return [rows[key] for key in sorted(rows)]


def _row(command: str, name: str, value: str, place: str) -> dict[str, str]:
    # A name and a password may be in an address.
    shown = without_keys(re.sub(r"(://)[^/@\s]*@", r"\1<secret>@", value))
    option = f"[{command}] {name}" if command else name
    return {"option": option.replace("_", "-"), "value": shown, "from": place}


@dataclass(frozen=True)
class FileSetting:
    """A value of a file, for a command or for all (``""``); a stranger's is trusted where it is harmless."""

    command: str
    name: str
    value: Any
    place: Path
    trusted: bool = True


def _own_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_config_path("keqa"))


def user_file() -> Path:
    """The user's own file, whether it is there or not."""
    return Path(os.environ.get(_VARIABLE) or _own_folder() / _NAME)


def settings(root: Any) -> list[FileSetting]:
    """What the files set, those of the folder after the user's own."""
    own, here = user_file(), Path(_NAME)
    if os.environ.get(_VARIABLE) and not own.exists():
        raise InputError(f"{_VARIABLE} names {own}, which is missing")
    found = list(_read(own, _bytes(own), root)) if own.exists() else []
    if os.path.lexists(here) and not (own.exists() and here.exists() and here.samefile(own)):
        data = _bytes(here)
        trusted = _mark(data).exists()
        found += [replace(one, trusted=trusted or _is_harmless(one)) for one in _read(here, data, root)]
    return found


def defaults(root: Any) -> dict[str, Any]:
    """What the files set, as the defaults of the commands; see ``typer.Context.default_map``."""
    made: dict[str, Any] = {}
    # What is for one command goes before what is for all.
    given = sorted(settings(root), key=lambda one: bool(one.command))
    # Without a setting no command but the one that runs is loaded.
    for path, command in _commands(root.command, root) if given else ():
        at = made
        for part in path:
            at = at.setdefault(part, {})
        many = {option.name: option.multiple for option in _options(command).values()}
        for one in given:
            if one.command in ("", " ".join(filter(None, path))) and one.name in many:
                value = _listed(one.value) if many[one.name] else one.value
                # Called where the option is neither typed nor a variable.
                at[one.name] = value if one.trusted else partial(_refuse, one)
    return made


def _bytes(path: Path) -> bytes:
    """What is in a file, which a link leads to only where it is the user's own."""
    with open_regular(path, links=path != Path(_NAME), error=InputError) as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST or any(line.count(b".") > _MOST_DOTS for line in data.splitlines()):
        raise InputError(f"{path} is no file of settings: it has more than {_LARGEST:,} bytes, or keys without an end")
    return data


def _mark(data: bytes) -> Path:
    """A file that is there once this folder's file of settings is trusted with this content."""
    digest = hashlib.sha256(bytes(Path(_NAME).absolute()) + b"\0" + data).hexdigest()
    return _own_folder() / "trusted" / digest


def _read(path: Path, data: bytes, root: Any) -> Iterator[FileSetting]:
    try:
        values = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    yield from _of(values, (), path, root)


def _of(values: Mapping[str, Any], command: tuple[str, ...], path: Path, root: Any) -> Iterator[FileSetting]:
    commands = {tuple(filter(None, at)): one for at, one in _commands(root.command, root)}
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
            near = meant(name.replace("_", "-"), [option.replace("_", "-") for option in known])
            raise InputError(f"{path}: no option that {where} is called {key}{near}")
        parts = _listed(value)
        if not all(isinstance(part, str | int | float) for part in parts):
            raise InputError(f"{path}: {key} must be a text, a number, true or false, or a list of these")
        # No shell has read the file, which would have put one's own folder in its place.
        own = [os.path.expanduser(part) if str(part).startswith("~/") else part for part in parts]
        yield FileSetting(" ".join(command), name, own if isinstance(value, list) else own[0], path)


def _is_harmless(one: FileSetting) -> bool:
    """Whether a stranger may set this: no path but one below the folder, no model, no address; it may cost more."""
    if one.name not in _PATHS:
        return one.name in _HARMLESS
    here = Path().resolve()
    parts = [text.strip() for part in _listed(one.value) for text in str(part).split(",")]
    # Other signs name a model, a server or a user, or are none of a path.
    plain = all(part.isprintable() and not set(part) & set("@:~") for part in parts)
    return plain and all((here / part).resolve().is_relative_to(here) for part in parts)


def _refuse(one: FileSetting) -> NoReturn:
    name = one.name.replace("_", "-")
    raise InputError(
        f"{one.place} of this folder sets {name} to {one.value!r}, and may be a stranger's: it could name a model "
        "that is fetched, or a server that your key is sent to. If it is yours, or you have read it, keqa config trust "
        f"takes it as it is now. Or put {name} into {user_file()}, or give --{name}"
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _commands(group: Any, context: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], TyperCommand]]:
    for name in (*group.list_commands(context), *getattr(group, "unnamed", ())):
        command = group.get_command(context, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, context, (*at, name))
        elif isinstance(command, TyperCommand):
            yield (*at, name), command


def _options(command: TyperCommand) -> dict[str, TyperOption]:
    """The options of a command that can have a default, by the names of their parameters."""
    return {str(one.name): one for one in command.params if isinstance(one, TyperOption) and one.name != "help"}
