"""A bar for documents that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from keqa.cli.console import status

Notice = Callable[[str], None]
Progress = Callable[..., None]
"""How many passages are done, and of how many where that is known."""
Reading = Callable[[int, int], None]
"""How many bytes were read, and of how many."""


@contextmanager
def reading_bar(label: str) -> Iterator[tuple[Progress, Reading, Notice]]:
    """A bar for bytes and passages, and a way to say something beside it."""
    from rich.filesize import decimal
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = status()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[read]}{task.fields[passages]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=None, read="", passages="")

        def progress(done: int, total: int | None = None) -> None:
            if total is None:
                bar.update(task, passages=f", {done:,} passages")
            else:
                bar.update(task, completed=done, total=total, read="", passages=f"{done:,} of {total:,} passages")

        def reading(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, read=f"{decimal(done)} of {decimal(total)} read")

        def notice(text: str) -> None:
            console.print(text, style="yellow", soft_wrap=True)

        yield progress, reading, notice
