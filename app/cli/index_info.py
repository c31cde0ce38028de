"""``keqa index info``: what an index is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keqa.cli.console import results, show_json, status, warn
from keqa.cli.options import AsJson
from keqa.storage.terminal import visible_line

if TYPE_CHECKING:
    from rich.table import Table


def info(
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="The folder of an index (FOLDER@MODEL to search a dense one), elasticsearch://host:9200/name, or "
            "several with commas.",
            show_default=False,
        ),
    ],
    query: Annotated[str | None, typer.Option("--query", "-q", help="Search for it, as a test.")] = None,
    k: Annotated[int, typer.Option("--top-k", "-k", min=1, help="How many passages to show.")] = 3,
    files: Annotated[bool, typer.Option("--files", help="Name every file, with its number of passages.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare every file with its checksum; exit code 1 where one differs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what an index is: how it was built, of what, how many passages it holds and how much room it takes.

    It also says of how many files it is, and what of its sources is not in it.

    The passages are counted, and a file that is missing or cut off is reported.
    """
    from keqa.cli.search import as_json_rows, hits_table, timed
    from keqa.retrievers import open_index
    from keqa.retrievers.engines import facts_of

    with status().status("looking…"):
        parts = facts_of(address, verify=verify)
        found = None if query is None else timed(open_index(address), query, k)
    if as_json:
        facts: dict[str, Any] = {"indexes": parts}
        if found is not None:
            facts |= {"query": query, "milliseconds": found[1], "hits": as_json_rows(found[0])}
        show_json(facts)
    for part in () if as_json else parts:
        results().print(_table(part))
        if files:
            results().print(_file_table(part.get("files") or {}))
    if found is not None and not as_json:
        results().print(hits_table(found[0]))
        results().print(f"{len(found[0])} passages in {found[1]:.1f} ms", style="dim")
    for part in parts:
        if damaged := part.get("checksums", {}).get("damaged"):
            warn(f"{part['address']} is damaged, in {', '.join(damaged)}: build it again")
            raise typer.Exit(1)


def _table(part: Mapping[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False)
    for name, value in _rows(part):
        table.add_row(Text(visible_line(name), style="bold"), Text(visible_line(value), overflow="fold"))
    return table


def _file_table(files: Mapping[str, int]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    table.add_column("passages", justify="right")
    table.add_column("file", overflow="fold")
    for path, passages in files.items():
        table.add_row(f"{passages:,}", Text(visible_line(path)))
    return table


def _rows(part: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    from rich.filesize import decimal

    for name, value in part.items():
        label = f"{before}{'size' if name == 'bytes' else name}".replace("_", " ")
        if name == "files" and isinstance(value, Mapping):
            yield label, _formatted(len(value)) if value else "not known"
        elif isinstance(value, Mapping):
            yield from _rows(value, f"{before}{name} ")
        elif value is None:
            yield label, "not known: the credentials do not allow to ask"
        else:
            yield label, decimal(value) if name == "bytes" else _formatted(value)


def _formatted(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_formatted, value))
    if isinstance(value, int):
        return f"{value:,}"
    # A space at the end of a prefix matters.
    return repr(value) if isinstance(value, str) and value != value.strip() else str(value)
