"""Options and groups of them: a command takes a group as one argument, and shows each of its fields as an option.

The argument is annotated with the group's class, a dataclass whose fields are options; a group may be made of groups.
The command that runs is kept without secrets and addresses, and without folders of this machine.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import wraps
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from keqa.errors import InputError
from keqa.storage.redaction import without_secrets

_ADDRESS = "<address>"
_invocation: ContextVar[str] = ContextVar("invocation", default="keqa")


class MisplacedOptionError(InputError):
    """Options mean nothing where they stand: one is refused where the user typed it, and else passed over."""

    def __init__(self, message: str, *flags: str) -> None:
        super().__init__(message)
        self.flags = flags


@dataclass(frozen=True)
class Panel:
    """Beside an option, or the class of a group for all of its options: the panel of the help in which it stands."""

    title: str


@dataclass(frozen=True)
class Places:
    """Beside an option whose text names folders or files: the characters that stand between them, or before one."""

    between: str


Server = Places("")
"""Beside an option that is the address of a server."""


def option(
    help: str, *flags: str, default: Any = None, place: Places | None = None, shown: str | bool = True, **further: Any
) -> Any:
    """An option, as the default of a command's argument or of a group's field, from whose name its flag is made.

    The panel of the help in which the options of a group stand is the class attribute ``panel`` of the group.
    """
    return _declared(typer.Option, default, place, help=help, flags=flags, show_default=shown, **further)


def argument(metavar: str | None, help: str, *, default: Any = ..., place: Places | None = None) -> Any:
    """An argument of a command, as the default of that of its function; it must be given where it has no default."""
    return _declared(typer.Argument, default, place, help=help, metavar=metavar, show_default=False)


def _declared(make: Callable[..., Any], default: Any, place: Places | None, **settings: Any) -> Any:
    return field(default=default, metadata={"make": make, "place": place, "settings": settings})


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its groups as an option; it is called with the groups.

    `invocation` gives the command as it was given from then on.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group, *beside = get_args(hints[name]) or (hints[name],)
        if is_dataclass(group):
            groups[name] = group
            panel = next((mark.title for mark in beside if isinstance(mark, Panel)), None)
            parameters |= {option.name: option for option in _options(group, panel)}
        elif hints[name] is not typer.Context:
            parameters[name] = _parameter(name, hints[name], parameter.default, None)

    @wraps(command)
    def spread(context: typer.Context, **values: Any) -> None:
        _drop_addresses_of_others(context, values)
        typed = {name for name in values if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}
        while True:
            _invocation.set(_written(command.__name__.removesuffix("_command"), parameters, values))
            left = {**values, **{name: context for name, hint in hints.items() if hint is typer.Context}}
            made = {name: _made(group, left) for name, group in groups.items()}
            try:
                return command(**left, **made)
            except MisplacedOptionError as error:
                # A file or a variable sets an option for all commands: it is taken where it means something.
                set_elsewhere = {
                    name: parameters[name].default
                    for name, value in values.items()
                    if flag_of(name) in error.flags and name not in typed and value != parameters[name].default
                }
                if not set_elsewhere:
                    raise
                values |= set_elsewhere

    own = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return as_command(spread, [own, *parameters.values()])


def as_command(function: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """Show Typer, which reads a function's signature, these parameters instead of its own."""
    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    function.__dict__["__signature__"] = inspect.Signature(shown)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return function


def flag_of(name: str) -> str:
    """The flag of an option, as the field of its group or the argument of the command is called."""
    return "--json" if name == "as_json" else f"--{name.replace('_', '-')}"


def refuse_empty(flag: str, value: str | None) -> None:
    """Refuse an option that was given and holds nothing: its default would be taken for it in silence."""
    if value is not None and not value.strip():
        raise InputError(f"{flag} is empty: give it a value, or leave it out")


def given(*groups: Any) -> dict[str, Any]:
    """The options of groups that are not what they are by default, by the names that they are written with."""
    found: dict[str, Any] = {}
    for group in groups:
        for one in fields(group):
            value = getattr(group, one.name)
            if is_dataclass(value):
                found |= given(value)
            elif value != one.default and value != []:
                found[flag_of(one.name)] = value
    return found


def invocation() -> str:
    """The command that runs, without secrets and addresses; of a folder or file outside, only the last component."""
    return _invocation.get()


def _options(group: Any, panel: str | None) -> Iterator[inspect.Parameter]:
    """The options of a group, and of the groups that it is made of."""
    hints = get_type_hints(group, include_extras=True)
    for one in fields(group):
        if is_dataclass(hints[one.name]):
            yield from _options(hints[one.name], panel)
        else:
            home = next(kind for kind in group.__mro__ if one.name in inspect.get_annotations(kind))
            declared = one if one.metadata else one.default
            yield _parameter(one.name, hints[one.name], declared, panel, home.__dict__.get("panel"))


def _made(group: Any, values: dict[str, Any]) -> Any:
    """A group with the values of its options, which are taken out of all values."""
    hints = get_type_hints(group)
    return group(
        **{
            one.name: _made(hints[one.name], values) if is_dataclass(hints[one.name]) else values.pop(one.name)
            for one in fields(group)
        }
    )


def _parameter(name: str, hint: Any, default: Any, panel: str | None, usual: str | None = None) -> inspect.Parameter:
    """What Typer is shown of an option, in the panel given, or else that of the option itself or its group."""
    kind, *beside = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    panel = panel or next((mark.title for mark in beside if isinstance(mark, Panel)), None)
    if isinstance(default, Field):
        made, place, settings = (default.metadata[one] for one in ("make", "place", "settings"))
        flags = settings.get("flags", ())
        # Typer would give a switch a second flag, and takes no flag from the name where there is another.
        if (flags or kind is bool) and not any(flag.startswith("--") for flag in flags):
            flags = (flag_of(name), *flags)
        own = {"rich_help_panel": usual, **{key: value for key, value in settings.items() if key != "flags"}}
        beside = [made(*flags, **own), *([place] if place is not None else [])]
        default = inspect.Parameter.empty if default.default is ... else default.default
    if panel is not None:
        beside = [_moved(one, panel) if isinstance(one, OptionInfo) else one for one in beside]
    shown: Any = Annotated[(kind, *beside)] if beside else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=shown)


def _moved(option: OptionInfo, panel: str) -> OptionInfo:
    copied = OptionInfo(**vars(option))
    copied.rich_help_panel = panel
    return copied


def _drop_addresses_of_others(context: typer.Context, values: dict[str, Any]) -> None:
    """Leave out the address that a variable or file gives together with another language model than the one asked.

    It is the server of that one: what is sent there, keys included, is not meant for it.
    """
    for name in [name for name in values if name.endswith("api_base") and values[name] is not None]:
        model = f"{name[: -len('api_base')]}lm"
        source = getattr(context.get_parameter_source(name), "name", "")
        beside = {
            "ENVIRONMENT": os.environ.get("KEQA_LM") if model == "lm" else None,
            "DEFAULT_MAP": (context.default_map or {}).get(model),
        }.get(source)
        if beside is not None and beside != values.get(model):
            values[name] = None


def _written(command: str, parameters: Mapping[str, inspect.Parameter], values: Mapping[str, Any]) -> str:
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
