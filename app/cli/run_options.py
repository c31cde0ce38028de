"""The options that ``keqa evaluate`` and ``keqa compare`` have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

__all__ = ["RunOptions", "flags_of", "with_run_options"]

_LMS, _METHOD, _DATA, _RUN = "Language models", "Method", "Questions", "Run"


@dataclass(frozen=True)
class RunOptions:
    """What is asked, of whom, how, and where the answers go; each field is an option of the same name."""

    testbed: Annotated[bool, typer.Option("--testbed", help="The testbed's questions.", rich_help_panel=_DATA)] = False
    questions: Annotated[
        str | None,
        typer.Option(
            "--questions",
            "-q",
            help="Your own .jsonl or .csv, or a benchmark's name: nq, hotpotqa, strategyqa and so on.",
            rich_help_panel=_DATA,
        ),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Folder of the benchmark's files; the Hugging Face hub by default.", rich_help_panel=_DATA
        ),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(help="Which part of them.", show_default="test, or what papers report", rich_help_panel=_DATA),
    ] = None
    sample: Annotated[int | None, typer.Option(min=1, help="Draw so many, by --seed.", rich_help_panel=_DATA)] = None
    seed: Annotated[int, typer.Option(help="Of the sample.", rich_help_panel=_DATA)] = 0
    limit: Annotated[int | None, typer.Option(min=1, help="The first so many.", rich_help_panel=_DATA)] = None
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run files.", rich_help_panel=_RUN)] = Path(
        "runs"
    )
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Ask the failed questions of an earlier run again, and those that a search or call failed for.",
            rich_help_panel=_RUN,
        ),
    ] = False
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            help="Make every call again; by default runs in one folder share theirs.",
            rich_help_panel=_RUN,
        ),
    ] = False
    in_flight: Annotated[
        int, typer.Option(min=1, max=1000, help="Questions in work at once.", rich_help_panel=_RUN)
    ] = 8
    stop_after_outages: Annotated[
        int,
        typer.Option(
            min=0,
            help="Stop after so many questions in succession that failed for a reason that may pass; 0: never.",
            rich_help_panel=_RUN,
        ),
    ] = 10
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON and nothing else.")] = False
    index: Annotated[
        str | None,
        typer.Option("--index", "-i", help="As for keqa ask; the testbed's by default.", rich_help_panel=_METHOD),
    ] = None
    retriever: Annotated[
        Literal["bm25", "dense", "hybrid"] | None,
        typer.Option(
            help="What searches the testbed's encyclopedia; of your own corpus, the engine that keqa index was given.",
            show_default="bm25",
            rich_help_panel=_METHOD,
        ),
    ] = None
    program: Annotated[
        list[Path] | None,
        typer.Option(
            "--program",
            "-p",
            help="A compiled program, for the method that it was compiled for; that of a KEQA also for what is made of "
            "it. Once for each method; testbed is the KEQA that ships.",
            rich_help_panel=_METHOD,
            show_default=False,
        ),
    ] = None
    embedder: Annotated[
        str | None,
        typer.Option(
            help="The embedding model of --program, where it is one of the hub or in a folder: as for keqa ask.",
            rich_help_panel=_METHOD,
            show_default=False,
        ),
    ] = None
    tries: Annotated[
        int | None, typer.Option(min=1, help="As for keqa ask.", show_default="5", rich_help_panel=_METHOD)
    ] = None
    threshold: Annotated[
        str | None, typer.Option(help="As for keqa ask.", show_default="0.8", rich_help_panel=_METHOD)
    ] = None
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="As for keqa ask.", show_default="1.0", rich_help_panel=_METHOD)
    ] = None
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Passages retrieved.", show_default="10", rich_help_panel=_METHOD)
    ] = None
    no_decompose: Annotated[
        bool, typer.Option("--no-decompose", help="For questions of one hop.", rich_help_panel=_METHOD)
    ] = False
    lm: Annotated[
        str | None, typer.Option("--lm", "-m", help="As for keqa ask.", rich_help_panel=_LMS, show_default=False)
    ] = None
    consistency_lm: Annotated[str | None, typer.Option(help="As for keqa ask.", rich_help_panel=_LMS)] = None
    utility_lm: Annotated[str | None, typer.Option(help="As for keqa ask.", rich_help_panel=_LMS)] = None
    api_base: Annotated[str | None, typer.Option(help="Address of the server of --lm.", rich_help_panel=_LMS)] = None
    consistency_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --consistency-lm.", rich_help_panel=_LMS)
    ] = None
    utility_api_base: Annotated[
        str | None, typer.Option(help="Address of the server of --utility-lm.", rich_help_panel=_LMS)
    ] = None


def flags_of(options: RunOptions) -> list[str]:
    """The options that are not what they are by default, as they are written."""
    names = [field.name for field in fields(options) if getattr(options, field.name) != field.default]
    return ["--json" if name == "as_json" else f"--{name.replace('_', '-')}" for name in names]


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command each field of `RunOptions` as an option; it is called with them as its argument `options`.

    Typer reads a function's signature, which this writes; the command itself keeps one argument for all of them.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "options"
    ]
    annotations = get_type_hints(RunOptions, include_extras=True)
    shared = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotations[field.name]
        )
        for field in fields(RunOptions)
    ]

    @wraps(command)
    def spread(**given: Any) -> None:
        mine = {parameter.name: given.pop(parameter.name) for parameter in own}
        command(**mine, options=RunOptions(**given))

    spread.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *shared]}
    return spread
