"""The help of a command, in which no option's name is cut, however narrow the terminal, and what it says of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from keqa.cli.console import results
from keqa.cli.options import with_groups
from keqa.storage.untrusted import plain

_Command = TypeVar("_Command", bound=Callable[..., Any])

_NAMES = 30
"""Columns for the names of options; those of a panel that has a longer word in them have more."""


class Commands(typer.Typer):
    """Commands that take groups of options, and whose help is that of `WholeNames`."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[_Command], _Command]:
        """See `typer.Typer.command`."""
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
        """See `typer.core.TyperCommand.parse_args`."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = plain(error.message)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print usage, text and panels."""
        from rich.markup import escape
        from rich.padding import Padding
        from rich.text import Text

        console = results()
        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        console.print(Padding(Text.from_markup(f"[yellow]Usage:[/] {escape(usage)}", style="bold"), 1))
        paragraphs = [" ".join(paragraph.split()) for paragraph in (self.help or "").split("\n\n")]
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


def _panel(title: str, records: list[tuple[str, str]]) -> Any:
    """Options and what they are for."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

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
