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

# So many files are named at the end; the manifest names more of them.
_NAMED = 20

Notice = Callable[[str], None]
Progress = Callable[..., None]
"""How many passages are done, and of how many where that is known."""


def build(
    engine: str,
    sources: Sequence[Path],
    name: str | None,
    options: Mapping[str, Any],
    *,
    force: bool = False,
    skip_unreadable: bool = False,
) -> None:
    """Build an index, say how to ask it and what is not in it.

    Args:
        engine: Which.
        sources: Files and folders.
        name: Name of the index.
        options: Those of the engine.
        force: Whether an index of other sources is replaced.
        skip_unreadable: Whether what could not be read is no failure.

    Raises:
        InputError: An option is missing, or a source cannot be read.
        RetrievalError: The index cannot be built.
        typer.Exit: The index is there, without something that should have been read.
    """
    import typer

    from keqa.cli.console import results, status

    place = _placed(engine, name, options)
    with _progress() as (progress, notice):
        manifest = _built(engine, sources, name, place, {**options, "overwrite": force}, progress, notice)
    noun = "passage" if manifest.passages == 1 else "passages"
    kind = getattr(manifest, "language", None) or f"{engine}, {manifest.encoder.model}"  # type: ignore[union-attr]
    address = _address(place, manifest)
    results().print(
        f'Indexed {manifest.passages:,} {noun} ({kind}) into {place}. Ask with: keqa ask "…" --index {address} --lm …',
        markup=False,
        soft_wrap=True,
    )
    for line in manifest.left_out.lines(_NAMED):
        status().print(line, style="yellow", markup=False, soft_wrap=True)
    if manifest.left_out.unexpected and not skip_unreadable:
        status().print(
            f"{manifest.left_out.unexpected} of the sources should be in the index and could not be read, so this ends "
            "with exit code 1; with --skip-unreadable it does not. keqa index info names them again",
            style="yellow",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(1)


def _address(place: str, manifest: Manifest | DenseManifest) -> str:
    """How the index is named to search it: with the model of its questions, where that is to be named."""
    from keqa.retrievers.dense.models import LOCAL
    from keqa.retrievers.opening import MODEL

    encoder = getattr(manifest, "encoder", None)
    return place if encoder is None or encoder.query_model == LOCAL else f"{place}{MODEL}{encoder.query_model}"


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
    notice: Notice,
) -> Manifest | DenseManifest:
    from keqa.retrievers import build_dense, build_index, read_corpus

    passages = read_corpus(sources, notice=notice, summary=False)
    own = {option: value for option, value in options.items() if option not in ("out", "url")}
    shared: dict[str, Any] = {"progress": progress, "notice": notice, "sources": [str(source) for source in sources]}
    if engine == "dense":
        return build_dense(passages, place, name=name, **own, **shared)
    if engine == "elasticsearch":
        from keqa.retrievers.elasticsearch import load_index

        return load_index(passages, place, **own, **shared)
    return build_index(passages, place, name=name, **own, **shared)


@contextmanager
def _progress() -> Iterator[tuple[Progress, Notice]]:
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

        def notice(text: str) -> None:
            console.print(text, style="yellow", markup=False, soft_wrap=True)

        yield progress, notice
