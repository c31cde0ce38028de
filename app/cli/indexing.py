"""Building an index of any engine from the command line, with a bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.retrievers import DenseManifest, Manifest

__all__ = ["build"]

Tell = Callable[[str], None]
Progress = Callable[..., None]
"""How many passages are done, and of how many where that is known."""


def build(engine: str, sources: Sequence[Path], name: str | None, options: Mapping[str, Any]) -> None:
    """Build an index and say how to ask it.

    Args:
        engine: Which.
        sources: Files and folders.
        name: Name of the index.
        options: Those of the engine.

    Raises:
        InputError: An option is missing, or a source cannot be read.
        RetrievalError: The index cannot be built.
    """
    from keqa.cli.console import results

    place = _placed(engine, name, options)
    with _progress() as (progress, tell):
        manifest = _built(engine, sources, name, place, options, progress, tell)
    noun = "passage" if manifest.passages == 1 else "passages"
    kind = getattr(manifest, "language", None) or f"{engine}, {manifest.encoder.model}"  # type: ignore[union-attr]
    results().print(
        f'Indexed {manifest.passages:,} {noun} ({kind}) into {place}. Ask with: keqa ask "…" --index {place} --lm …',
        markup=False,
        soft_wrap=True,
    )


def _placed(engine: str, name: str | None, options: Mapping[str, Any]) -> str:
    """The address of the index that is to be built."""
    if engine != "elasticsearch":
        if "out" not in options:
            raise InputError("--out is missing: name a folder for the index")
        return str(options["out"])
    if "url" not in options or name is None:
        raise InputError("an index in Elasticsearch needs --url, the cluster, and --name, its name there")
    from keqa.retrievers.elasticsearch import index_address

    return index_address(options["url"], name)


def _built(
    engine: str,
    sources: Sequence[Path],
    name: str | None,
    place: str,
    options: Mapping[str, Any],
    progress: Progress,
    tell: Tell,
) -> Manifest | DenseManifest:
    from keqa.retrievers import build_dense, build_index, read_corpus

    passages = read_corpus(sources, notice=tell)
    own = {option: value for option, value in options.items() if option not in ("out", "url")}
    shared: dict[str, Any] = {"progress": progress, "notice": tell, "sources": [str(source) for source in sources]}
    if engine == "dense":
        return build_dense(passages, place, name=name, **own, **shared)
    if engine == "elasticsearch":
        from keqa.retrievers.elasticsearch import load_index

        return load_index(passages, place, **own, **shared)
    return build_index(passages, place, name=name, **own, **shared)


@contextmanager
def _progress() -> Iterator[tuple[Progress, Tell]]:
    """A bar for passages, and a way to say something beside it."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from keqa.cli.console import status

    console = status()
    columns = (
        SpinnerColumn(),
        TextColumn("indexing"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}{task.fields[of]} passages"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("indexing", total=None, of="")

        def progress(done: int, total: int | None = None) -> None:
            bar.update(task, completed=done, total=total, of="" if total is None else f" of {total:,}")

        def tell(text: str) -> None:
            console.print(text, style="yellow", markup=False, soft_wrap=True)

        yield progress, tell
