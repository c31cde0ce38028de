"""The questions that a command asks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.options.invocation import Places

_data = partial(typer.Option, rich_help_panel="Questions")


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
