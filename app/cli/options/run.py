"""How a command asks its questions, where their answers go, and how it prints them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_run = partial(typer.Option, rich_help_panel="Run")

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]
InFlight = Annotated[int, _run(min=1, max=1000, help="Questions in work at once.")]
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
