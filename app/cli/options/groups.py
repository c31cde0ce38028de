"""Groups of options: a command takes a group as one argument, and shows each of its fields as an option.

The argument is annotated with the group's class, a dataclass whose fields are annotated as options are; a group may be
made of groups.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from keqa.cli.options.invocation import keep_invocation
from keqa.cli.options.models import drop_addresses_of_others


@dataclass(frozen=True)
class Panel:
    """Beside an option, or the class of a group for all of its options: the panel of the help in which it stands."""

    title: str


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of its groups as an option; it is called with the groups.

    `keqa.cli.options.invocation.invocation` gives the command as it was given from then on.

    Args:
        command: A function whose arguments are annotated as options are, or with the class of a group.

    Returns:
        What Typer is given instead of it.
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
        else:
            parameters[name] = parameter.replace(annotation=hints[name])

    @wraps(command)
    def spread(context: typer.Context, **values: Any) -> None:
        drop_addresses_of_others(context, values)
        keep_invocation(command.__name__.removesuffix("_command"), parameters, values)
        made = {name: _made(group, values) for name, group in groups.items()}
        command(**values, **made)

    own = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return as_command(spread, [own, *parameters.values()])


def as_command(function: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """Show Typer, which reads a function's signature, these parameters instead of its own."""
    shown = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    function.__dict__["__signature__"] = inspect.Signature(shown)
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return function


def _options(group: Any, panel: str | None) -> Iterator[inspect.Parameter]:
    """The options of a group, and of the groups that it is made of."""
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        if is_dataclass(hints[field.name]):
            yield from _options(hints[field.name], panel)
        else:
            yield _option(field, hints[field.name], panel)


def _made(group: Any, values: dict[str, Any]) -> Any:
    """A group with the values of its options, which are taken out of all values."""
    hints = get_type_hints(group)
    return group(
        **{
            field.name: _made(hints[field.name], values) if is_dataclass(hints[field.name]) else values.pop(field.name)
            for field in fields(group)
        }
    )


def _option(field: Field[Any], hint: Any, panel: str | None) -> inspect.Parameter:
    kind, *beside = get_args(hint)
    panel = panel or next((mark.title for mark in beside if isinstance(mark, Panel)), None)
    if panel is not None:
        beside = [_moved(one, panel) if isinstance(one, OptionInfo) else one for one in beside]
    made: Any = Annotated[(kind, *beside)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=made)


def _moved(option: OptionInfo, panel: str) -> OptionInfo:
    copied = OptionInfo(**vars(option))
    copied.rich_help_panel = panel
    return copied
