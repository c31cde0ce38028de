"""``keqa index``: documents in, a searchable index out; ``keqa index info``: what an index is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from keqa.cli.index_info import INFO
from keqa.errors import InputError

__all__ = ["IndexCommand", "index"]

_DENSE, _SERVER = "Engine dense", "Engine elasticsearch"
_BUILDING = ("--out", "-o", "--engine", "--url")

# The options that each engine takes beyond --name.
_TAKES = {
    "embedded": {"out", "language"},
    "dense": {"out", "model", "query_model", "query_prefix", "passage_prefix", "separator", "similarity"},
    "elasticsearch": {"url", "language", "shards", "replicas"},
}


class IndexCommand(TyperCommand):
    """A command beside whose sources ``info`` stands for a command of its own."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Hand over to ``keqa index info`` where nothing is to be built of a file called info."""
        building = any(arg.partition("=")[0] in _BUILDING for arg in args)
        if args[:1] == ["info"] and not building:
            command: Any = typer.main.get_command(INFO)
            return command.make_context(f"{info_name} info", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)


def index(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE...",
            help="Folders of .txt, .md, .pdf and .html, or files: JSONL, JSON [{title, text}], DPR .tsv.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the index; not for elasticsearch.", show_default=False)
    ] = None,
    engine: Annotated[
        str, typer.Option(help="embedded (BM25), dense (embeddings), or elasticsearch (BM25 on a cluster).")
    ] = "embedded",
    language: Annotated[
        str | None, typer.Option(help="en, zh, or auto to decide by the text.", show_default="auto")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the index; the folder's by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an index that was made of other sources.")] = False,
    skip_unreadable: Annotated[
        bool,
        typer.Option("--skip-unreadable", help="End with exit code 0 although something could not be read."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="A sentence-transformers model, by name or folder; local/minilm comes as a Python package.",
            show_default="local/minilm",
            rich_help_panel=_DENSE,
        ),
    ] = None,
    query_model: Annotated[
        str | None,
        typer.Option(help="Encodes questions, where a pair of models is for the two.", rich_help_panel=_DENSE),
    ] = None,
    query_prefix: Annotated[
        str | None, typer.Option(help='Put before a question ("query: " for E5).', rich_help_panel=_DENSE)
    ] = None,
    passage_prefix: Annotated[
        str | None, typer.Option(help='Put before a passage ("passage: " for E5).', rich_help_panel=_DENSE)
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(help='Between title and text (" [SEP] " for DPR).', show_default='": "', rich_help_panel=_DENSE),
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            help="cosine or dot; by default dot for a pair of models, for one what it says.", rich_help_panel=_DENSE
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Of the cluster: http://host:9200 or https://…; several nodes with commas. Credentials are read from "
            "ELASTICSEARCH_API_KEY, or _USERNAME and _PASSWORD. A certificate is checked by the authority's file in "
            "ELASTICSEARCH_CA_CERTS, or by ELASTICSEARCH_FINGERPRINT. An answer is waited for ELASTICSEARCH_TIMEOUT "
            "seconds, 30 by default.",
            rich_help_panel=_SERVER,
        ),
    ] = None,
    shards: Annotated[int | None, typer.Option(min=1, show_default="1", rich_help_panel=_SERVER)] = None,
    replicas: Annotated[
        int | None, typer.Option(min=0, show_default="1 with two nodes or more", rich_help_panel=_SERVER)
    ] = None,
) -> None:
    """Index documents, so that `keqa ask --index` can search them.

    Long documents are split into passages of about 100 words. An index is published only when it is finished; one that
    is already there stays in place until then. After a kill, the same command resumes a dense index or one of
    Elasticsearch.

    What could not be read is counted and named at the end, and in the index. Where that should have been read (a
    damaged PDF, a folder without rights, a link that leads elsewhere), the index is made of the rest and the exit code
    is 1.

    keqa index info ADDRESS shows what an index is.
    """
    from keqa.cli.indexing import build

    given = {
        "out": out,
        "language": language,
        "model": model,
        "query_model": query_model,
        "query_prefix": query_prefix,
        "passage_prefix": passage_prefix,
        "separator": separator,
        "similarity": similarity,
        "url": url,
        "shards": shards,
        "replicas": replicas,
    }
    build(engine, sources, name, _taken(engine, given), force=force, skip_unreadable=skip_unreadable)


def _taken(engine: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given.

    Raises:
        InputError: There is no such engine, or it does not take one of them.
    """
    if engine not in _TAKES:
        raise InputError(f"--engine must be {', '.join(_TAKES)}, not {engine!r}")
    options = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if option not in _TAKES[engine]:
            of = " and ".join(one for one, takes in _TAKES.items() if option in takes)
            raise InputError(f"--{option.replace('_', '-')} is for --engine {of}, not for {engine}: leave it out")
    return options
