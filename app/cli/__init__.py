"""The commands of ``keqa``, one module each. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from keqa.cli.ask import ask, chat
from keqa.cli.boundary import boundary
from keqa.cli.compile import compile_command
from keqa.cli.config import config
from keqa.cli.declare import Commands
from keqa.cli.documents import documents
from keqa.cli.evaluate import compare, evaluate
from keqa.cli.index import index, search
from keqa.cli.reproduce import reproduce
from keqa.cli.serve import serve, view
from keqa.cli.testbed import demo, testbed

if TYPE_CHECKING:
    from typer.core import TyperGroup

__all__ = ["app"]

app = Commands(
    name="keqa",
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
    from typing import cast

    from keqa.cli.config import defaults

    # A reply that was cut off is asked for again, or reported with its question; DSPy's line would break progress bars.
    logging.getLogger("dspy.clients.lm").setLevel(logging.ERROR)
    # Whoever looks up what is set wants to see it all, with its place.
    if context.invoked_subcommand != "config":
        context.default_map = defaults(cast("TyperGroup", context.command))


app.command()(demo)
app.command()(ask)
app.command()(chat)
app.add_typer(index)
app.command()(documents)
app.command()(search)
app.command()(serve)
app.command("compile")(compile_command)
app.command()(evaluate)
app.command()(compare)
app.command()(view)
app.command()(reproduce)
app.command()(config)
app.add_typer(boundary)
app.add_typer(testbed)
