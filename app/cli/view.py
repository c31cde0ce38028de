"""``keqa view``: run files in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keqa.cli.console import status
from keqa.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from keqa.page.runs import Runs


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUNS...", help="Run files, or folders of them; runs by default.", show_default=False),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write everything to this file instead, as a page that needs no server and no network.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8322,
) -> None:
    """Look at runs in a browser: methods side by side, and each question's stories next to each other.

    RUNS are what keqa evaluate and keqa compare write to --out. Questions are filtered by text, outcome, kind, and
    whether methods differ; a story is read when its question is opened. The server is for this machine alone, and
    asks no language model. Ctrl-C stops it.
    """
    from keqa.page.runs import Runs

    if html is None:
        _check_installed()
    else:
        from keqa.page.story import check_place

        check_place(html)
    with status().status("reading the runs…"):
        found = Runs(runs or [Path("runs")])
    what = f"{found.count} {'run' if found.count == 1 else 'runs'} of {len(found):,} questions"
    if html is not None:
        with status().status("writing the page…"):
            _write(found, html)
        status().print(f"Wrote {what} to {html} ({html.stat().st_size / 1e6:.1f} MB).", soft_wrap=True)
        return
    from keqa.server.run_view import LIMITS, run_view
    from keqa.server.serving import listen, server

    with listen("127.0.0.1", port) as bound:
        where = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        status().print(f"Showing {what} at {where}. Ctrl-C stops.", soft_wrap=True)
        server(run_view(found), LIMITS, 1).run([bound])


def _write(found: Runs, html: Path) -> None:
    try:
        with html.open("w", encoding="utf-8") as stream:
            stream.writelines(found.page())
    except OSError as error:
        raise InputError(f"the page cannot be written to {html}: {error.strerror or error}") from None


def _check_installed() -> None:
    from importlib.util import find_spec

    if not all(map(find_spec, ("starlette", "uvicorn", "prometheus_client"))):
        raise MissingExtraError("serve", "keqa view without --html")
