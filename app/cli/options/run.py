"""The questions that a command asks, how it asks them, where their answers go, and how it prints them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.options.groups import Places, option
from keqa.cli.options.method import MethodOptions, RiskOptions
from keqa.cli.options.models import LanguageModels

_RUN = "Run"

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
InFlight = Annotated[int, typer.Option(min=1, max=1000, help="Questions in work at once.", rich_help_panel=_RUN)]
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
    typer.Option(
        "--allow-overlap",
        help="Ask questions that a compiled program learned from, too; every table marks its row.",
        rich_help_panel=_RUN,
    ),
]
RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed",
        help="Ask the failed questions of an earlier run again, and those that a search or call failed for.",
        rich_help_panel=_RUN,
    ),
]


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked."""

    panel = "Questions"

    testbed: bool = option("The testbed's questions.", default=False)
    questions: str | None = option(
        "Your own .jsonl or .csv, or a benchmark's name: nq, hotpotqa, strategyqa and so on.",
        "-q",
        place=Places(":"),
    )
    data: Path | None = option("Folder of the benchmark's files; the Hugging Face hub by default.")
    split: str | None = option("Which part of them.", shown="test, or what papers report")
    sample: int | None = option("Draw so many, by --seed.", min=1)
    seed: int = option("Of the sample.", default=0)
    limit: int | None = option("The first so many.", min=1)


@dataclass(frozen=True)
class RunOptions:
    """Where the answers go, and how many questions are in work."""

    panel = _RUN

    out: Path = option("Folder of the run files.", "-o", default=Path("runs"))
    retry_failed: RetryFailed = False
    no_cache: bool = option("Make every call again; by default runs in one folder share theirs.", default=False)
    in_flight: InFlight = 8
    stop_after_outages: int = option(
        "Stop after so many questions in succession that failed for a reason that may pass; 0: never.",
        min=0,
        default=10,
    )
    allow_overlap: AllowOverlap = False


@dataclass(frozen=True)
class EvaluationOptions:
    """What ``keqa evaluate`` and ``keqa compare`` take: which questions, asked how, and where the answers go."""

    questions: QuestionOptions
    run: RunOptions
    method: MethodOptions
    models: LanguageModels
    risk: RiskOptions
