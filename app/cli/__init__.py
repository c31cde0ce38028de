"""The commands of ``keqa``. A command's module is loaded when it is wanted, and nothing heavy before that needs it."""

from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from keqa.cli.declare import Commands

__all__ = ["app"]

_COMMANDS = {
    "demo": "testbed.demo",
    "ask": "ask.ask",
    "chat": "ask.chat",
    "documents": "documents.documents",
    "search": "index.search",
    "serve": "serve.serve",
    "compile": "compile.compile_command",
    "evaluate": "evaluate.evaluate",
    "compare": "evaluate.compare",
    "view": "serve.view",
    "reproduce": "reproduce.reproduce",
    "config": "config.config",
    "index": "index.index",
    "boundary": "boundary.boundary",
    "testbed": "testbed.testbed",
}
"""Where each command is, a function or a group of commands."""


class _Lazily(TyperGroup):
    """Loads a command when it is wanted, and all of them where they are listed or one is misspelt."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        for name in [cmd_name] if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                module, _, of = _COMMANDS[name].partition(".")
                self.commands[name] = _made(name, getattr(import_module(f"keqa.cli.{module}"), of))
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)


# Whoever calls the command line more than once in a process needs no more than one of each.
@cache
def _made(name: str, command: Any) -> Any:
    if isinstance(command, typer.Typer):
        return typer.main.get_group(command)
    alone = Commands(add_completion=False)
    alone.command(name)(command)
    return typer.main.get_command(alone)


app = Commands(
    name="keqa",
    cls=_Lazily,
    help="Ask complex questions over your own documents. The program first finds out what the language model does not "
    "know, retrieves only that, keeps only passages that help, and shows its work.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"keqa {version('keqa')}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Hold what stands before the command's name, and take defaults from the files of settings."""
    import logging

    from keqa.cli.config import defaults

    # A reply that was cut off is asked for again, or reported with its question; DSPy's line would break progress bars.
    logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)
    # What is said in Python where a program is loaded, commands say above their progress bars.
    logging.getLogger("keqa.programs").setLevel(logging.ERROR)
    # Whoever looks up what is set wants to see it all, with its place.
    if context.invoked_subcommand != "config":
        context.default_map = defaults(context)
