"""``keqa index`` and ``keqa search``: documents into an index of any engine of the registry, and what it finds."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, make_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.filesize import decimal
from rich.text import Text
from typer.core import TyperGroup

from keqa.cli.console import emit, results, status, table, warn
from keqa.cli.declare import Commands, MisplacedOptionError, argument, flag_of, option
from keqa.cli.options import AS_JSON, INDEX
from keqa.errors import InputError
from keqa.storage.redaction import visible, visible_line

if TYPE_CHECKING:
    from keqa.retrievers import Retriever
    from keqa.retrievers.changing import IndexChange
    from keqa.retrievers.engines import Engine

# The command that builds: no word stands for it, since a folder may have any name.
_BUILD = ""
# So many files of a kind are named at the end; the manifest names more of them.
_NAMED = 20

_ADDRESS = argument(
    "ADDRESS",
    "The folder of an index (FOLDER@MODEL where the passages of a dense one are of another model than local/minilm), "
    "elasticsearch://host:9200/name, or several with commas, which are changed one after the other.",
)
_SKIP_UNREADABLE = option("End with exit code 0 although something could not be read.", default=False)


class _IndexGroup(TyperGroup):
    """Builds an index where no other command is named; the options are those of the engines that are registered."""

    unnamed = (_BUILD,)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Make the command that builds, whose options need the registry, when it is wanted."""
        return _build_command() if cmd_name == _BUILD else super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args and args[0]) and args[0] in self.commands
        return super().parse_args(ctx, args if named else [_BUILD, *args])


index = Commands(name="index", cls=_IndexGroup, help="Make a searchable index of documents, change it, or look at one.")


def build(
    *,
    sources: list[Path] = argument(
        "SOURCE...",
        "Folders of .pdf, .docx, .pptx, .xlsx, .epub, .html, .eml, .md, .rst, .csv, .txt and code, or files: JSONL, "
        "JSON [{title, text}], DPR .tsv.",
    ),
    options: Any,
) -> None:
    """Index documents, so that `keqa ask --index` can search them.

    Long documents are split into passages of about 100 words. An index is published only when it is finished; one that
    is already there stays in place until then. After a kill, the same command resumes a dense index or one of
    Elasticsearch.

    What could not be read is counted and named at the end, and in the index. Where that should have been read (a
    damaged PDF, a folder without rights, a link that leads elsewhere), the index is built from the rest and the exit
    code is 1. Files of records, such as .jsonl, are named one by one: in a folder they are passed over.

    keqa index add, remove and sync change an index that is there, and keqa index info shows what it is; documents in a
    folder that is called like one of these commands are named ./info.
    """
    from keqa.retrievers import read_corpus

    engine, own = _engine_of(options)
    given = {name: value for name, value in own.items() if value is not None}
    address = engine.locate(given if options.name is None else {**given, "name": options.name})
    kept = {one.name: given[one.name] for one in engine.options if one.name in given and not one.locates}
    with reading_bar("indexing") as (progress, reading, notice):
        passages = read_corpus(sources, notice=notice, summary=False, progress=reading)
        built = engine.build(
            passages,
            address,
            name=options.name,
            overwrite=options.force,
            sources=[str(source) for source in passages.sources],
            progress=progress,
            notice=notice,
            **kept,
        )
    noun = "passage" if built.passages == 1 else "passages"
    results().print(
        f"Indexed {built.passages:,} {noun} ({engine.described(built)}) into {address}. "
        f'Ask with: keqa ask "…" --index {shlex.quote(engine.searched(address, built))} --lm …',
        soft_wrap=True,
    )
    for line in passages.left_out.lines(_NAMED):
        warn(line)
    if (unexpected := passages.left_out.unexpected) and not options.skip_unreadable:
        warn(
            f"{unexpected} of the sources should be in the index and could not be read, so this ends "
            "with exit code 1; with --skip-unreadable it does not. keqa index info names them again"
        )
        raise typer.Exit(1)


def _built() -> dict[str, Engine]:
    from keqa.retrievers.engines import ENGINES

    return {name: engine for name, engine in ENGINES.items() if engine.builds}


def _build_command() -> Any:
    """The command with an option for each that an engine takes; engines may share one."""
    engines = _built()
    takers: dict[str, list[Any]] = {}
    for engine in engines.values():
        for one in engine.options:
            takers.setdefault(one.name, []).append((engine.name, one))
    about = "; ".join(f"{one.name}: {one.about}" if one.about else one.name for one in engines.values())
    fields: list[tuple[str, Any, Any]] = [
        ("engine", str, option(f"What searches the index. {about}.", default="embedded")),
        ("name", str | None, option("Name of the index; the folder's by default.")),
        ("force", bool, option("Replace an index that was built from other sources.", default=False)),
        ("skip_unreadable", bool, _SKIP_UNREADABLE),
    ]
    for name, taken in takers.items():
        engine, one = taken[0]
        flags = [flag_of(name), *([one.short] if one.short else [])]
        panel = {"rich_help_panel": f"Engine {engine}"} if len(taken) == 1 else {}
        made = option(one.help, *flags, shown=one.shown or False, min=one.least, **panel)
        fields.append((name, one.type | None, made))
    # The options are known only now.
    build.__annotations__["options"] = make_dataclass("BuildOptions", fields, frozen=True)
    made = Commands(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    made.command(_BUILD)(build)
    return typer.main.get_command(made)


def _engine_of(options: Any) -> tuple[Engine, dict[str, Any]]:
    """The engine, and the options of engines, of which those of another are refused."""
    from keqa.retrievers.engines import ENGINES

    engines, name = _built(), options.engine
    if name not in engines:
        about = ENGINES[name].about if name in ENGINES else ""
        no_builder = f"--engine {name} builds no index{f': it {about}' if about else ''}"
        raise InputError(no_builder if name in ENGINES else f"--engine must be {', '.join(engines)}, not {name!r}")
    takes = {engine: {one.name for one in of.options} for engine, of in engines.items()}
    own = {one: getattr(options, one) for one in set().union(*takes.values())}
    for one, value in own.items():
        if value is not None and one not in takes[name]:
            of = " and ".join(engine for engine, names in takes.items() if one in names)
            why = f"{flag_of(one)} is for --engine {of}, not for {name}: leave it out"
            raise MisplacedOptionError(why, flag_of(one))
    return engines[name], own


@index.command()
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
    as_json: bool = AS_JSON,
) -> None:
    """Show what an index is: how it was built, of what, how many passages it holds and how much room it takes.

    It also shows how many files it was built from, and which parts of its sources were left out.

    The passages are counted, and a file that is missing or cut off is reported.
    """
    from keqa.retrievers import open_index
    from keqa.retrievers.engines import facts_of

    with status().status("looking…"):
        parts = facts_of(address, verify=verify)
        facts, found = ({}, []) if query is None else _found(open_index(address), query, k)
    shown: list[Any] = []
    for part in parts:
        facts_shown = [(Text(visible_line(name), "bold"), visible_line(value)) for name, value in _facts(part)]
        shown.append(table(("", ""), facts_shown, left=(0, 1), box=None, show_header=False))
        if files:
            rows = [(f"{passages:,}", visible_line(path)) for path, passages in (part.get("files") or {}).items()]
            shown.append(table(("passages", "file"), rows, left=(1,), box=None))
    emit({"indexes": parts, **facts}, [*shown, *found], as_json=as_json)
    for part in parts:
        if damaged := part.get("checksums", {}).get("damaged"):
            warn(f"{part['address']} is damaged, in {', '.join(damaged)}: build it again")
            raise typer.Exit(1)


def _facts(part: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        label = f"{before}{'size' if name == 'bytes' else name}".replace("_", " ")
        if name == "files" and isinstance(value, Mapping):
            yield label, _formatted(len(value)) if value else "not known"
        elif isinstance(value, Mapping):
            yield from _facts(value, f"{before}{name} ")
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


@index.command()
def add(
    *,
    address: str = _ADDRESS,
    sources: list[Path] = argument("SOURCE...", "Files and folders, as of keqa index."),
    skip_unreadable: bool = _SKIP_UNREADABLE,
    as_json: bool = AS_JSON,
) -> None:
    """Add files, and all files of folders, to an index.

    A file that is in the index already takes the place of what it was, where its content has changed. Either all of
    it is in the index afterwards or, after any failure or kill, nothing; who searches meanwhile is not disturbed.
    """
    from keqa.retrievers.changing import add_files

    with reading_bar("adding") as (_, reading, notice):
        changes = add_files(address, sources, notice=notice, progress=reading)
    _report(changes, as_json=as_json, skip_unreadable=skip_unreadable)


@index.command()
def remove(
    *,
    address: str = _ADDRESS,
    names: list[str] = argument(
        "NAME...", "Files and folders, which need not be there any more; or ids of passages or documents."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Take files, folders or single passages out of an index.

    A passage that was taken out by its id comes back when its file changes.
    """
    from keqa.retrievers.changing import remove_files

    with status().status("removing…"):
        changes = remove_files(address, names)
    _report(changes, as_json=as_json)


@index.command()
def sync(
    *,
    address: str = _ADDRESS,
    folder: Path = argument("FOLDER", "A folder of documents, or a file of records."),
    skip_unreadable: bool = _SKIP_UNREADABLE,
    as_json: bool = AS_JSON,
) -> None:
    """Bring an index in step with a folder: what is new, changed or gone there, found by content.

    Files of other folders stay. A file that can no longer be read is taken out, as a new build would leave it out.
    """
    from keqa.retrievers.changing import sync_folder

    with reading_bar("comparing") as (_, reading, notice):
        changes = sync_folder(address, folder, notice=notice, progress=reading)
    _report(changes, as_json=as_json, skip_unreadable=skip_unreadable)


def _report(changes: Sequence[IndexChange], *, as_json: bool, skip_unreadable: bool = True) -> None:
    shown = [line for change in changes for line in _lines(change)]
    emit({"indexes": [asdict(change) for change in changes]}, shown, as_json=as_json)
    # Every index of an address is of the same files.
    left_out = changes[0].left_out
    if not as_json:
        for line in left_out.lines(_NAMED):
            warn(line)
    if left_out.unexpected and not skip_unreadable:
        raise typer.Exit(1)


def _lines(change: IndexChange) -> Iterator[str]:
    kinds = (("new", change.added), ("changed", change.changed), ("gone", change.removed))
    for kind, files in kinds:
        yield from (f"{kind}: {visible_line(file)}" for file in files[:_NAMED])
        if len(files) > _NAMED:
            yield f"{kind}: {len(files) - _NAMED:,} more"
    counts = ", ".join(f"{len(files):,} {kind}" for kind, files in kinds)
    yield (
        f"{visible_line(change.address)}: {counts} and {change.unchanged:,} unchanged files; "
        f"{change.passages_added:,} passages written, {change.passages_removed:,} removed, {change.passages:,} now"
    )


def search(
    *,
    query: str = argument("QUERY", "Any text."),
    index: str | None = INDEX,
    k: int = option("How many passages.", "--top-k", "-k", default=10, min=1),
    as_json: bool = AS_JSON,
) -> None:
    """Search an index and show the passages that it finds, best first, and where in which file they stand."""
    with status().status("searching…"):
        if index is None:
            from keqa.testbed.index import open_encyclopedia

            retriever: Retriever = open_encyclopedia()
        else:
            from keqa.retrievers.engines import open_index

            retriever = open_index(index)
        value, shown = _found(retriever, query, k)
    emit(value, shown, as_json=as_json)


def _found(retriever: Retriever, query: str, k: int) -> tuple[dict[str, Any], list[Any]]:
    """What a query finds, as JSON and as it is shown, and how long it took after one that loads what is loaded late."""
    retriever.search(query, k)
    started = time.perf_counter()
    hits = retriever.search(query, k)
    took = 1000 * (time.perf_counter() - started)
    rows, shown = [], []
    for rank, hit in enumerate(hits, start=1):
        of, place = hit.passage, asdict(hit.passage.place)
        rows.append({"rank": rank, "score": hit.score, "id": of.id, "title": of.title, "text": of.text, **place})
        # Long ids would leave the text no room beside them; most begin with the file.
        below = visible_line(", ".join(filter(None, (str(of.place), of.place.date))) or of.id)
        title = (f"{visible_line(of.title)}: ", "bold") if of.title else ""
        shown.append((str(rank), f"{hit.score:.4g}", Text.assemble(title, visible(of.text), (f"\n{below}", "dim"))))
    summary = f"{len(hits)} passage{'s' * (len(hits) != 1)} in {took:.1f} ms"
    found = table(("", "score", "passage"), shown, left=(2,))
    return {"query": query, "milliseconds": took, "hits": rows}, [found, Text(summary, "dim")]


@contextmanager
def reading_bar(label: str) -> Iterator[tuple[Callable[..., None], Callable[[int, int], None], Callable[[str], None]]]:
    """A bar for documents that are read: what shows passages done, and bytes read, and says something beside it."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    now = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[read]}{task.fields[passages]}"))
    with Progress(SpinnerColumn(), *now, TimeElapsedColumn(), console=status(), transient=True) as bar:
        task = bar.add_task(label, total=None, read="", passages="")

        def progress(done: int, total: int | None = None) -> None:
            if total is None:
                bar.update(task, passages=f", {done:,} passages")
            else:
                bar.update(task, completed=done, total=total, read="", passages=f"{done:,} of {total:,} passages")

        def reading(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, read=f"{decimal(done)} of {decimal(total)} read")

        yield progress, reading, partial(bar.console.print, style="yellow", soft_wrap=True)
