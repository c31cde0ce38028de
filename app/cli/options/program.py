"""The program that a command asks, and the index that it searches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from keqa.cli.options.invocation import Places

Index = Annotated[
    str | None,
    typer.Option(
        "--index",
        "-i",
        envvar="KEQA_INDEX",
        help="An index made by keqa index: its folder, or elasticsearch://host:9200/name; several with commas are "
        "ranked together. documents:FILE gives each question the document that keqa documents made for it. The "
        "testbed's encyclopedia by default.",
    ),
    Places(",@"),
]
Embedder = Annotated[
    str | None,
    typer.Option(
        help="The embedding model that the program was compiled with, where it is one of the hub or in a folder: it is "
        "opened only if you name it.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class ProgramOptions:
    """The one program that a command asks, and the index that it searches."""

    index: Index = None
    program: Annotated[
        Path | None,
        typer.Option(
            "--program",
            "-p",
            help="A compiled program, whose settings hold where no option is given; testbed is the one that ships.",
        ),
    ] = None
    embedder: Embedder = None
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", help="Make every call again; by default DSPy's cache answers what was asked before."
        ),
    ] = False
