"""``keqa index``: documents in, a searchable index out, of any engine of the registry."""

from __future__ import annotations

import inspect
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from keqa.cli.console import results, warn
from keqa.cli.help import Commands
from keqa.cli.index_change import add, remove, sync
from keqa.cli.index_info import info
from keqa.cli.options import argument, as_command, flag_of, option
from keqa.cli.reading import reading_bar
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.retrievers.engines import BuildOption, Engine

# No word stands for it: a folder may have any name.
_BUILD = ""
# So many files are named at the end; the manifest names more of them.
_NAMED = 20


class _IndexGroup(TyperGroup):
    """Builds an index where no other command is named; the options are those of the engines that are registered."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Make the command, whose options need the registry, when it is wanted."""
        if args and args[0] and args[0] in self.commands:
            return super().parse_args(ctx, args)
        self.commands[_BUILD] = _build_command()
        return super().parse_args(ctx, [_BUILD, *args])


index = Commands(name="index", cls=_IndexGroup, help="Make a searchable index of documents, change it, or look at one.")
for _command in (info, add, remove, sync):
    index.command()(_command)


def build(
    *,
    sources: list[Path] = argument(
        "SOURCE...",
        "Folders of .pdf, .docx, .pptx, .xlsx, .epub, .html, .eml, .md, .csv and .txt, or files: JSONL, JSON [{title, "
        "text}], DPR .tsv.",
    ),
    engine: str = "embedded",
    name: str | None = option("Name of the index; the folder's by default."),
    force: bool = option("Replace an index that was made of other sources.", default=False),
    skip_unreadable: bool = option("End with exit code 0 although something could not be read.", default=False),
    **options: Any,
) -> None:
    """Index documents, so that `keqa ask --index` can search them.

    Long documents are split into passages of about 100 words. An index is published only when it is finished; one that
    is already there stays in place until then. After a kill, the same command resumes a dense index or one of
    Elasticsearch.

    What could not be read is counted and named at the end, and in the index. Where that should have been read (a
    damaged PDF, a folder without rights, a link that leads elsewhere), the index is made of the rest and the exit code
    is 1. Files of records, such as .jsonl, are named one by one: in a folder they are passed over.

    keqa index add, remove and sync change an index that is there, and keqa index info shows what it is; documents in a
    folder that is called like one of these commands are named ./info.
    """
    from keqa.retrievers import read_corpus

    chosen, given = _taken(engine, options)
    named = {} if name is None else {"name": name}
    address = chosen.locate({**given, **named})
    own = {option.name: given[option.name] for option in chosen.options if option.name in given and not option.locates}
    with reading_bar("indexing") as (progress, reading, notice):
        passages = read_corpus(sources, notice=notice, summary=False, progress=reading)
        built = chosen.build(
            passages,
            address,
            name=name,
            overwrite=force,
            sources=[str(source) for source in passages.sources],
            progress=progress,
            notice=notice,
            **own,
        )
    noun = "passage" if built.passages == 1 else "passages"
    results().print(
        f"Indexed {built.passages:,} {noun} ({chosen.described(built)}) into {address}. "
        f'Ask with: keqa ask "…" --index {shlex.quote(chosen.searched(address, built))} --lm …',
        soft_wrap=True,
    )
    left_out = passages.left_out
    for line in passages.lines(_NAMED):
        warn(line)
    if left_out.unexpected and not skip_unreadable:
        warn(
            f"{left_out.unexpected} of the sources should be in the index and could not be read, so this ends "
            "with exit code 1; with --skip-unreadable it does not. keqa index info names them again"
        )
        raise typer.Exit(1)


def _taken(name: str, options: dict[str, Any]) -> tuple[Engine, dict[str, Any]]:
    """The engine, and the options that were given."""
    from keqa.retrievers.engines import ENGINES

    engines = _built()
    if name in ENGINES and name not in engines:
        about = ENGINES[name].about
        raise InputError(f"--engine {name} builds no index{f': it {about}' if about else ''}")
    if name not in engines:
        raise InputError(f"--engine must be {', '.join(engines)}, not {name!r}")
    given = {one: value for one, value in options.items() if value is not None}
    takes = {engine: {one.name for one in of.options} for engine, of in engines.items()}
    for one in given:
        if one not in takes[name]:
            of = " and ".join(engine for engine, names in takes.items() if one in names)
            raise InputError(f"{flag_of(one)} is for --engine {of}, not for {name}: leave it out")
    return engines[name], given


def _built() -> dict[str, Engine]:
    """The engines whose indexes are built here."""
    from keqa.retrievers.engines import ENGINES

    return {name: engine for name, engine in ENGINES.items() if engine.builds}


def _build_command() -> Any:
    """The command with an option for each that an engine takes; engines may share one."""
    engines = list(_built().values())
    takers: dict[str, list[str]] = {}
    options: dict[str, BuildOption] = {}
    for engine in engines:
        for one in engine.options:
            options.setdefault(one.name, one)
            takers.setdefault(one.name, []).append(engine.name)
    about = "; ".join(f"{engine.name}: {engine.about}" if engine.about else engine.name for engine in engines)
    parameters = dict(inspect.signature(build, eval_str=True).parameters)
    del parameters["options"]
    choice = option(f"What searches the index. {about}.", default=parameters["engine"].default)
    parameters["engine"] = parameters["engine"].replace(default=choice)
    parameters |= {name: _parameter(one, takers[name]) for name, one in options.items()}

    def command(**given: Any) -> None:
        build(**given)

    command.__doc__ = build.__doc__
    made = Commands(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})
    made.command(_BUILD)(as_command(command, parameters.values()))
    return typer.main.get_command(made)


def _parameter(one: BuildOption, engines: list[str]) -> inspect.Parameter:
    panel = f"Engine {engines[0]}" if len(engines) == 1 else None
    flags = [flag_of(one.name), *([one.short] if one.short else [])]
    made = option(one.help, *flags, shown=one.shown or False, min=one.least, rich_help_panel=panel)
    kind: Any = one.type
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=kind | None)
