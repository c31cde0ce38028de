"""How a command's options are declared: each once, alone or in a group, which a command takes as one argument.

A group is a dataclass whose fields are options, or groups again. The command that runs is kept without secrets and
addresses, and without folders of this machine.
"""

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import wraps
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import typer
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from keqa.cli.console import results
from keqa.errors import InputError
from keqa.storage.redaction import without_secrets
from keqa.storage.untrusted import plain

SERVER = ""
"""The ``place`` of an option that is the address of a server."""

_ADDRESS = "<address>"
_NAMES = 30
"""Columns for the names of options in a help; those of a panel that has a longer word in them have more."""

_Command = TypeVar("_Command", bound=Callable[..., Any])
_invocation: ContextVar[str] = ContextVar("invocation", default="keqa")


class MisplacedOptionError(InputError):
    """Options mean nothing where they stand: one is refused where the user typed it, and else passed over."""

    def __init__(self, message: str, *flags: str) -> None:
        super().__init__(message)
        self.flags = flags


def option(
    help: str, *flags: str, default: Any = None, place: str | None = None, shown: str | bool = True, **further: Any
) -> Any:
    """An option, as the default of a command's argument or of a group's field, from whose name its flag is made.

    ``place``, of one that names folders or files, is the characters that stand between them, or before one. Options of
    a group stand in the panel of the help that the class attribute ``panel`` of the group names.
    """
    settings = {"help": help, "show_default": shown, **further}
    return field(default=default, metadata={"kind": "option", "flags": flags, "place": place, "settings": settings})


def argument(metavar: str | None, help: str, *, default: Any = ..., place: str | None = None) -> Any:
    """An argument of a command, as the default of that of its function; it must be given where it has no default."""
    settings = {"help": help, "metavar": metavar, "show_default": False}
    return field(default=default, metadata={"kind": "argument", "place": place, "settings": settings})


@dataclass(frozen=True)
class _Declared:
    name: str
    of: Any
    about: Field[Any]
    panel: str | None = None

    @property
    def parameter(self) -> inspect.Parameter:
        """As Typer is shown it, which reads a function's signature."""
        about, default = self.about.metadata, self.about.default
        settings, flags = dict(about["settings"]), about.get("flags", ())
        # Typer would give a switch a second flag, and takes no flag from the name where there is another.
        if (flags or self.of is bool) and not any(flag.startswith("--") for flag in flags):
            flags = (flag_of(self.name), *flags)
        if self.panel is not None:
            settings["rich_help_panel"] = self.panel
        made = typer.Option(*flags, **settings) if about["kind"] == "option" else typer.Argument(**settings)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is ... else default,
            annotation=Annotated[self.of, made],
        )


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its groups as an option; it is called with the groups.

    A group whose annotation names a panel of the help stands there; one with a method ``check`` refuses there what
    contradicts itself. `invocation` gives the command as it was given from then on.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    declared: dict[str, _Declared] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group, *panel = get_args(hints[name]) or (hints[name],)
        if is_dataclass(group):
            groups[name] = group
            declared |= {one.name: one for one in _options(group, panel[0] if panel else None)}
        elif hints[name] is not typer.Context:
            declared[name] = _Declared(name, hints[name], parameter.default)

    @wraps(command)
    def spread(context: typer.Context, **values: Any) -> None:
        _drop_addresses_of_others(context, values)
        typed = {name for name in values if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}
        while True:
            _invocation.set(_written(command.__name__.removesuffix("_command"), declared, values))
            left = {**values, **{name: context for name, hint in hints.items() if hint is typer.Context}}
            made = {name: _made(group, left) for name, group in groups.items()}
            try:
                for name, one in declared.items():
                    _refuse_empty(one, values.get(name))
                for group in made.values():
                    _check(group)
                return command(**left, **made)
            except MisplacedOptionError as error:
                # A file or a variable sets an option for all commands: it is taken where it means something.
                usual = {name: one.about.default for name, one in declared.items() if flag_of(name) in error.flags}
                elsewhere = {name: of for name, of in usual.items() if name not in typed and values[name] != of}
                if not elsewhere:
                    raise
                values |= elsewhere

    own = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    shown = [own, *(one.parameter for one in declared.values())]
    spread.__dict__["__signature__"] = inspect.Signature(shown)
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return spread


def flag_of(name: str) -> str:
    """The flag of an option, as the field of its group or the argument of the command is called."""
    return "--json" if name == "as_json" else f"--{name.replace('_', '-')}"


def _refuse_empty(one: "_Declared", value: Any) -> None:
    """Refuse an option that names something and is empty: its default would be taken for it in silence."""
    about = one.about.metadata
    if about["kind"] == "option" and about["place"] is not None and isinstance(value, str) and not value.strip():
        raise InputError(f"{flag_of(one.name)} is empty: give it a value, or leave it out")


def _check(group: Any) -> None:
    for inner in (getattr(group, one.name) for one in fields(group)):
        if is_dataclass(inner):
            _check(inner)
    if hasattr(group, "check"):
        group.check()


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


def _options(group: Any, panel: str | None) -> Iterator[_Declared]:
    hints = get_type_hints(group)
    for one in fields(group):
        if is_dataclass(hints[one.name]):
            yield from _options(hints[one.name], panel)
        else:
            home = next(kind for kind in group.__mro__ if one.name in inspect.get_annotations(kind))
            yield _Declared(one.name, hints[one.name], one, panel or home.__dict__.get("panel"))


def _made(group: Any, values: dict[str, Any]) -> Any:
    """A group with the values of its options, which are taken out of all values."""
    kinds = [(one.name, get_type_hints(group)[one.name]) for one in fields(group)]
    return group(**{name: _made(of, values) if is_dataclass(of) else values.pop(name) for name, of in kinds})


def _drop_addresses_of_others(context: typer.Context, values: dict[str, Any]) -> None:
    """Leave out the address that a variable or file gives together with another language model than the one asked.

    It is the server of that one: what is sent there, keys included, is not meant for it.
    """
    for name in [name for name in values if name.endswith("api_base") and values[name] is not None]:
        model = f"{name.removesuffix('api_base')}lm"
        of_variable = os.environ.get("KEQA_LM") if model == "lm" else None
        beside = {"ENVIRONMENT": of_variable, "DEFAULT_MAP": (context.default_map or {}).get(model)}
        named = beside.get(getattr(context.get_parameter_source(name), "name", ""))
        if named is not None and named != values.get(model):
            values[name] = None


def _written(command: str, declared: Mapping[str, _Declared], values: Mapping[str, Any]) -> str:
    arguments: list[str] = []
    options: list[str] = []
    for name, one in declared.items():
        value, about = values[name], one.about.metadata
        if value is None or value == one.about.default or value == []:
            continue
        texts = [_shareable(part, about["place"]) for part in (value if isinstance(value, list) else [value])]
        if about["kind"] == "argument":
            arguments += texts
        elif isinstance(value, bool):
            options.append(flag_of(name if value else f"no_{name}"))
        else:
            options += [part for text in texts for part in (flag_of(name), text)]
    return shlex.join(["keqa", command, *arguments, *options])


def _shareable(value: Any, place: str | None) -> str:
    if isinstance(value, Path):
        return value.name or str(value)
    if place == SERVER:
        return _ADDRESS
    text = str(without_secrets(str(value)))
    if place is None:
        return text
    if place == "/":
        # The name of a model may hold the same: only what follows the provider can be a path.
        provider, slash, rest = text.partition("/")
        return provider + slash + _last(rest)
    return "".join(map(_last, re.split(f"([{place}])", text)))


def _last(text: str) -> str:
    """An absolute path by its last component alone; whatever else as it is."""
    if text.startswith("documents:"):
        return "documents:" + _last(text.removeprefix("documents:"))
    path = PureWindowsPath(text)
    return path.name if path.root or text.startswith("~") else text


class Commands(typer.Typer):
    """Commands that take groups of options, and whose help is that of `WholeNames`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Command], _Command]:
        add = super().command(name, **{"cls": WholeNames, **settings})

        def added(command: _Command) -> _Command:
            add(with_groups(command))
            return command

        return added


class WholeNames(TyperCommand):
    """A command whose help has two columns, of which the first is as wide as the longest name.

    Typer's own has six, which share the width of the terminal: at 80 columns it cuts ``--no-demonstrations``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = plain(error.message)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        console = results()
        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        console.print(Padding(Text.from_markup(f"[yellow]Usage:[/] {escape(usage)}", style="bold"), 1))
        parts = (self.help or "").split("\n\n")
        # What is indented is a file to copy.
        paragraphs = [part if part.startswith(" ") else " ".join(part.split()) for part in parts]
        for style, text in zip(["", *["dim"] * len(paragraphs)], paragraphs, strict=False):
            console.print(Padding(Text(text, style=style), (0, 1, 1, 1)))
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in sorted(self.get_params(ctx), key=lambda one: one.param_type_name != "argument"):
            record = parameter.get_help_record(ctx)
            if record is not None:
                title = getattr(parameter, "rich_help_panel", None)
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(title or usual, []).append(record)
        # The usual ones stand first.
        for title in sorted(panels, key=lambda title: title not in ("Arguments", "Options")):
            console.print(_panel(title, panels[title]))


def _panel(title: str, records: list[tuple[str, str]]) -> Panel:
    table = Table.grid(padding=(0, 1), expand=True)
    words = [word for names, _ in records for word in names.split()]
    longest = max(len(names) for names, _ in records)
    table.add_column(width=max([min(longest, _NAMES), *map(len, words)]), overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for names, text in records:
        shown = Text(names, style="yellow")
        shown.highlight_regex(r"(?<!\S)--?[a-z][\w-]*", "bold cyan")
        table.add_row(shown, Text(text))
    return Panel(table, title=title, title_align="left", border_style="dim")
