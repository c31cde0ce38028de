"""``keqa index add``, ``remove`` and ``sync``: an index that is there, changed without building it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keqa.cli.console import emit, status, warn
from keqa.cli.options import AsJson, argument
from keqa.cli.reading import reading_bar
from keqa.storage.redaction import visible_line

if TYPE_CHECKING:
    from keqa.retrievers.changing import IndexChange

# So many files of a kind are named.
_NAMED = 20

Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS",
        help="The folder of an index (FOLDER@MODEL where the passages of a dense one are of another model than "
        "local/minilm), "
        "elasticsearch://host:9200/name, or several with commas, which are changed one after the other.",
        show_default=False,
    ),
]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="End with exit code 0 although something could not be read.")
]


def add(
    *,
    address: Address,
    sources: list[Path] = argument("SOURCE...", "Files and folders, as of keqa index."),
    skip_unreadable: SkipUnreadable = False,
    as_json: AsJson = False,
) -> None:
    """Add files, and all files of folders, to an index.

    A file that is in the index already takes the place of what it was, where its content has changed. Either all of
    it is in the index afterwards or, after any failure or kill, nothing; who searches meanwhile is not disturbed.
    """
    from keqa.retrievers.changing import add_files

    with reading_bar("adding") as (_, reading, notice):
        changes = add_files(address, sources, notice=notice, progress=reading)
    _report(changes, as_json=as_json, skip_unreadable=skip_unreadable)


def remove(
    *,
    address: Address,
    names: list[str] = argument(
        "NAME...", "Files and folders, which need not be there any more; or ids of passages or documents."
    ),
    as_json: AsJson = False,
) -> None:
    """Take files, folders or single passages out of an index.

    A passage that was taken out by its id comes back when its file changes.
    """
    from keqa.retrievers.changing import remove_files

    with status().status("removing…"):
        changes = remove_files(address, names)
    _report(changes, as_json=as_json)


def sync(
    *,
    address: Address,
    folder: Path = argument("FOLDER", "A folder of documents, or a file of records."),
    skip_unreadable: SkipUnreadable = False,
    as_json: AsJson = False,
) -> None:
    """Bring an index in step with a folder: what is new, changed or gone there, found by content.

    Files of other folders stay. A file that can no longer be read is taken out, as a new build would leave it out.
    """
    from keqa.retrievers.changing import sync_folder

    with reading_bar("comparing") as (_, reading, notice):
        changes = sync_folder(address, folder, notice=notice, progress=reading)
    _report(changes, as_json=as_json, skip_unreadable=skip_unreadable)


def _report(changes: Sequence[IndexChange], *, as_json: bool, skip_unreadable: bool = True) -> None:
    shown = (line for change in changes for line in _lines(change))
    emit({"indexes": [asdict(change) for change in changes]}, shown, as_json=as_json)
    # Every index of an address is of the same files.
    left_out = changes[0].left_out
    if not as_json:
        for line in left_out.lines(_NAMED, changes[0].examples):
            warn(line)
    if left_out.unexpected and not skip_unreadable:
        raise typer.Exit(1)


def _lines(change: IndexChange) -> list[str]:
    kinds = (("new", change.added), ("changed", change.changed), ("gone", change.removed))
    lines = []
    for kind, files in kinds:
        lines += [f"{kind}: {visible_line(file)}" for file in files[:_NAMED]]
        if len(files) > _NAMED:
            lines.append(f"{kind}: {len(files) - _NAMED:,} more")
    counts = ", ".join(f"{len(files):,} {kind}" for kind, files in kinds)
    return [
        *lines,
        f"{visible_line(change.address)}: {counts} and {change.unchanged:,} unchanged files; "
        f"{change.passages_added:,} passages written, {change.passages_removed:,} removed, {change.passages:,} now",
    ]
