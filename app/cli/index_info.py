"""``keqa index info``: what an index is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from keqa.cli.console import emit, status, table, warn
from keqa.cli.options import AsJson, argument, option
from keqa.storage.redaction import visible_line

if TYPE_CHECKING:
    from rich.table import Table


def info(
    *,
    address: str = argument(
        "ADDRESS",
        "The folder of an index (FOLDER@MODEL to search a dense one), elasticsearch://host:9200/name, or several with "
        "commas.",
    ),
    query: str | None = option("Search for it, as a test.", "-q"),
    k: int = option("How many passages to show.", "--top-k", "-k", default=3, min=1),
    files: bool = option("Name every file, with its number of passages.", default=False),
    verify: bool = option("Compare every file with its checksum; exit code 1 where one differs.", default=False),
    as_json: AsJson = False,
) -> None:
    """Show what an index is: how it was built, of what, how many passages it holds and how much room it takes.

    It also says of how many files it is, and what of its sources is not in it.

    The passages are counted, and a file that is missing or cut off is reported.
    """
    from rich.text import Text

    from keqa.cli.search import as_json_rows, hits_table, timed
    from keqa.retrievers import open_index
    from keqa.retrievers.engines import facts_of

    with status().status("looking…"):
        parts = facts_of(address, verify=verify)
        found = None if query is None else timed(open_index(address), query, k)
    facts: dict[str, Any] = {"indexes": parts}
    shown: list[Any] = []
    for part in parts:
        shown += [_table(part), *([_file_table(part.get("files") or {})] if files else [])]
    if found is not None:
        facts |= {"query": query, "milliseconds": found[1], "hits": as_json_rows(found[0])}
        shown += [hits_table(found[0]), Text(f"{len(found[0])} passages in {found[1]:.1f} ms", "dim")]
    emit(facts, shown, as_json=as_json)
    for part in parts:
        if damaged := part.get("checksums", {}).get("damaged"):
            warn(f"{part['address']} is damaged, in {', '.join(damaged)}: build it again")
            raise typer.Exit(1)


def _table(part: Mapping[str, Any]) -> Table:
    from rich.text import Text

    rows = [(Text(visible_line(name), "bold"), visible_line(value)) for name, value in _rows(part)]
    return table(("", ""), rows, left=(0, 1), box=None, show_header=False)


def _file_table(files: Mapping[str, int]) -> Table:
    rows = [(f"{passages:,}", visible_line(path)) for path, passages in files.items()]
    return table(("passages", "file"), rows, left=(1,), box=None)


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
