"""The options that ``keqa evaluate`` and ``keqa compare`` have in common, as types of their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ApiBase",
    "AsJson",
    "ConsistencyApiBase",
    "ConsistencyLm",
    "DataFolder",
    "InFlight",
    "Index",
    "Limit",
    "Lm",
    "NoCache",
    "NoDecompose",
    "Out",
    "ProgramFolder",
    "QuestionsName",
    "RetryFailed",
    "Sample",
    "Seed",
    "Split",
    "Temperature",
    "Testbed",
    "Threshold",
    "TopK",
    "Tries",
    "UtilityApiBase",
    "UtilityLm",
]

LMS, METHOD, DATA, RUN = "Language models", "Method", "Questions", "Run"

Testbed = Annotated[bool, typer.Option("--testbed", help="The testbed's questions.", rich_help_panel=DATA)]
QuestionsName = Annotated[
    str | None,
    typer.Option(
        "--questions",
        "-q",
        help="Your own .jsonl or .csv, or a benchmark's name: nq, hotpotqa, strategyqa and so on.",
        rich_help_panel=DATA,
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder of the benchmark's files; the Hugging Face hub by default.", rich_help_panel=DATA
    ),
]
Split = Annotated[
    str | None,
    typer.Option(help="Which part of them.", show_default="test, or what papers report", rich_help_panel=DATA),
]
Sample = Annotated[int | None, typer.Option(min=1, help="Draw so many, by --seed.", rich_help_panel=DATA)]
Seed = Annotated[int, typer.Option(help="Of the sample.", rich_help_panel=DATA)]
Limit = Annotated[int | None, typer.Option(min=1, help="The first so many.", rich_help_panel=DATA)]
Index = Annotated[
    Path | None,
    typer.Option(
        "--index", "-i", help="An index made by keqa index; the testbed's by default.", rich_help_panel=METHOD
    ),
]
ProgramFolder = Annotated[
    Path | None,
    typer.Option(
        "--program", "-p", help="A compiled program, for KEQA and what is made of it.", rich_help_panel=METHOD
    ),
]
Lm = Annotated[str | None, typer.Option("--lm", "-m", help="As for keqa ask.", rich_help_panel=LMS, show_default=False)]
ConsistencyLm = Annotated[str | None, typer.Option(help="As for keqa ask.", rich_help_panel=LMS)]
UtilityLm = Annotated[str | None, typer.Option(help="As for keqa ask.", rich_help_panel=LMS)]
ApiBase = Annotated[str | None, typer.Option(help="Address of the server of --lm.", rich_help_panel=LMS)]
ConsistencyApiBase = Annotated[
    str | None, typer.Option(help="Address of the server of --consistency-lm.", rich_help_panel=LMS)
]
UtilityApiBase = Annotated[str | None, typer.Option(help="Address of the server of --utility-lm.", rich_help_panel=LMS)]
Tries = Annotated[int | None, typer.Option(min=1, help="As for keqa ask.", show_default="5", rich_help_panel=METHOD)]
Threshold = Annotated[str | None, typer.Option(help="As for keqa ask.", show_default="0.8", rich_help_panel=METHOD)]
Temperature = Annotated[
    float | None, typer.Option(min=0.0, help="As for keqa ask.", show_default="1.0", rich_help_panel=METHOD)
]
TopK = Annotated[int | None, typer.Option(min=1, help="Passages retrieved.", show_default="10", rich_help_panel=METHOD)]
NoDecompose = Annotated[bool, typer.Option("--no-decompose", help="For questions of one hop.", rich_help_panel=METHOD)]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the run files.", rich_help_panel=RUN)]
InFlight = Annotated[int, typer.Option(min=1, help="Questions in work at once.", rich_help_panel=RUN)]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Ask the failed questions of an earlier run again.", rich_help_panel=RUN)
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Make every call anew; by default runs in one folder share theirs.", rich_help_panel=RUN
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON and nothing else.")]
