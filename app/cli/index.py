"""``keqa index``: documents in, a searchable index out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["index"]


def index(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Folders of .txt, .md, .pdf and .html, or files: JSONL, JSON [{title, text}], DPR .tsv.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the index.", show_default=False)],
    language: Annotated[str, typer.Option(help="en, zh, or auto to tell from the text.")] = "auto",
    name: Annotated[str | None, typer.Option(help="Name of the index; the folder's by default.")] = None,
) -> None:
    """Index documents, so that `keqa ask --index` can search them.

    Long documents are split into passages of about 100 words. An index is published only when it is finished; one that
    is already there stays in place until then.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from keqa.cli.console import results, status
    from keqa.retrievers import build_index, read_corpus

    console = status()
    columns = (
        SpinnerColumn(),
        TextColumn("indexing"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} passages"),
        TimeElapsedColumn(),
    )

    def tell(text: str) -> None:
        console.print(text, style="yellow", markup=False, soft_wrap=True)

    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("indexing", total=None)
        manifest = build_index(
            read_corpus(sources, notice=tell),
            out,
            language=language,
            progress=lambda count: bar.update(task, completed=count),
            notice=tell,
            sources=[str(source) for source in sources],
            name=name,
        )
    noun = "passage" if manifest.passages == 1 else "passages"
    results().print(
        f"Indexed {manifest.passages:,} {noun} ({manifest.language}) into {out}. "
        f'Ask with: keqa ask "…" --index {out} --lm …',
        markup=False,
        soft_wrap=True,
    )
