"""``keqa view``: run files in a browser."""

from __future__ import annotations

from pathlib import Path

from keqa.cli.console import status
from keqa.cli.options import NoToken, argument, option


def view(
    *,
    runs: list[Path] | None = argument("RUNS...", "Run files, or folders of them; runs by default.", default=None),
    html: Path | None = option("Write everything to this file instead, as a page that needs no server and no network."),
    port: int = option("The port; 0 for any that is free.", default=8322, min=0, max=65535),
    no_token: NoToken = False,
) -> None:
    """Look at runs in a browser: methods side by side, and each question's stories next to each other.

    RUNS are what keqa evaluate and keqa compare write to --out. Questions are filtered by text, outcome, kind, and
    whether methods differ; a story is read when its question is opened. The server is for you on this
    machine alone: the address that is printed has a token for it. No language model is asked. Ctrl-C stops it.
    """
    from keqa.cli.opening import check_installed
    from keqa.page.runs import Runs
    from keqa.page.story import check_place, write_page

    if html is None:
        check_installed("keqa view without --html", "starlette", "uvicorn", "prometheus_client")
    else:
        check_place(html)
    with status().status("reading the runs…"):
        found = Runs(runs or [Path("runs")])
    what = f"{found.count} {'run' if found.count == 1 else 'runs'} of {len(found):,} questions"
    if html is not None:
        with status().status("writing the page…"):
            write_page(html, found.page())
        status().print(f"Wrote {what} to {html} ({html.stat().st_size / 1e6:.1f} MB).", soft_wrap=True)
        return
    from keqa.server.run_view import LIMITS, run_view
    from keqa.server.serving import listen, new_token, server

    token = None if no_token else new_token()
    with listen("127.0.0.1", port) as bound:
        where = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        where += f"#token={token}" if token else ""
        status().print(f"Showing {what} at {where}. Ctrl-C stops.", soft_wrap=True)
        server(run_view(found, token), LIMITS, 1).run([bound])
