"""The questions that a command asks, how it asks them, where their answers go, and how it prints them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.options.groups import Places
from keqa.cli.options.method import MethodOptions, RiskOptions
from keqa.cli.options.models import LanguageModels

_data = partial(typer.Option, rich_help_panel="Questions")
_run = partial(typer.Option, rich_help_panel="Run")

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
InFlight = Annotated[int, _run(min=1, max=1000, help="Questions in work at once.")]
NoToken = Annotated[
    bool,
    typer.Option(
        "--no-token",
        help="Ask for no token: on a machine that nobody else uses. Without it, and without a token of your own, the "
        "address that is printed has a new one.",
    ),
]
AllowOverlap = Annotated[
    bool,
    _run(
        "--allow-overlap",
        help="Ask questions that a compiled program learned from, too; every table marks its row.",
    ),
]
RetryFailed = Annotated[
    bool,
    _run(
        "--retry-failed",
        help="Ask the failed questions of an earlier run again, and those that a search or call failed for.",
    ),
]


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked."""

    testbed: Annotated[bool, _data("--testbed", help="The testbed's questions.")] = False
    questions: Annotated[
        str | None,
        _data(
            "--questions",
            "-q",
            help="Your own .jsonl or .csv, or a benchmark's name: nq, hotpotqa, strategyqa and so on.",
        ),
        Places(":"),
    ] = None
    data: Annotated[
        Path | None, _data("--data", help="Folder of the benchmark's files; the Hugging Face hub by default.")
    ] = None
    split: Annotated[str | None, _data(help="Which part of them.", show_default="test, or what papers report")] = None
    sample: Annotated[int | None, _data(help="Draw so many, by --seed.", min=1)] = None
    seed: Annotated[int, _data(help="Of the sample.")] = 0
    limit: Annotated[int | None, _data(help="The first so many.", min=1)] = None


@dataclass(frozen=True)
class RunOptions:
    """Where the answers go, and how many questions are in work."""

    out: Annotated[Path, _run("--out", "-o", help="Folder of the run files.")] = Path("runs")
    retry_failed: RetryFailed = False
    no_cache: Annotated[
        bool,
        _run(
            "--no-cache",
            help="Make every call again; by default runs in one folder share theirs.",
        ),
    ] = False
    in_flight: InFlight = 8
    stop_after_outages: Annotated[
        int,
        _run(
            min=0,
            help="Stop after so many questions in succession that failed for a reason that may pass; 0: never.",
        ),
    ] = 10
    allow_overlap: AllowOverlap = False


@dataclass(frozen=True)
class EvaluationOptions:
    """What ``keqa evaluate`` and ``keqa compare`` take: which questions, asked how, and where the answers go."""

    questions: QuestionOptions
    run: RunOptions
    method: MethodOptions
    models: LanguageModels
    risk: RiskOptions
