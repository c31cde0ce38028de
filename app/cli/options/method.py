"""The settings of KEQA and of the methods that it is compared with, and what these are made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keqa.cli.options.groups import Panel
from keqa.cli.options.program import Embedder, Index
from keqa.errors import InputError

_setting = partial(typer.Option, rich_help_panel="Method")


def _tuned(name: str, help: str) -> Any:
    """A switch that is on or off as the program was compiled where it is not given."""
    return _setting(f"--{name}/--no-{name}", help=help, show_default="as compiled, or off")


@dataclass(frozen=True)
class KeqaOptions:
    """The settings of KEQA, of which other methods have some."""

    tries: Annotated[
        int | None,
        _setting(help="Closed-book samples of the answer to a quiz (N_c).", min=1, show_default="5"),
    ] = None
    threshold: Annotated[
        str | None,
        _setting(help="Share of equal samples from which a quiz is known: .8 or 4/5.", show_default="0.8"),
    ] = None
    temperature: Annotated[float | None, _setting(help="Temperature of the samples.", min=0.0, show_default="1.0")] = (
        None
    )
    top_k: Annotated[
        int | None,
        _setting(help="Passages retrieved for a quiz.", min=1, show_default="10, or the method's own"),
    ] = None
    no_decompose: Annotated[
        bool, _setting("--no-decompose", help="Take the question as its only quiz, for questions of one hop.")
    ] = False
    no_examine: Annotated[bool, _setting("--no-examine", help="Retrieve for every quiz.")] = False
    no_pick: Annotated[bool, _setting("--no-pick", help="Keep every passage retrieved.")] = False
    select: Annotated[
        bool,
        _setting(
            "--select",
            help="Put the sentences closest to triples that the question needs beside the passages (KS-LLM).",
        ),
    ] = False
    no_demonstrations: Annotated[
        bool,
        _setting(
            "--no-demonstrations",
            help="Show no fixed demonstrations: four a prompt, for any model but the one that ships, where none are "
            "learned.",
        ),
    ] = False
    listwise: Annotated[
        bool | None,
        _tuned("listwise", help="Judge the passages of a quiz in one call, and not each by itself."),
    ] = None
    summarize_single: Annotated[
        bool | None,
        _tuned("summarize-single", help="Summarize a question that is its own only quiz, too."),
    ] = None
    summarize_known: Annotated[
        bool | None,
        _tuned(
            "summarize-known",
            help="Where a quiz cannot be asked, summarize the answered ones before the question is asked by itself.",
        ),
    ] = None
    prefer_reliable: Annotated[
        bool | None,
        _tuned(
            "prefer-reliable",
            help="Leave out passages of sources that seldom helped, or as old as such, by the labels of the reference, "
            "where others were judged helpful as well.",
        ),
    ] = None

    def settings(self) -> dict[str, Any]:
        """The settings that were given, by the names that a method's constructor and `keqa.load` take.

        Raises:
            InputError: The threshold is no share. It stays as it was written, so that 4 of 5 reaches .8.
        """
        from keqa.programs.arguments import Threshold

        if self.threshold is not None:
            try:
                Threshold.read(self.threshold)
            except ValueError:
                raise InputError(
                    f"--threshold must be a share above 0 and at most 1, such as 0.8 or 4/5, not {self.threshold!r}"
                ) from None
        found = {name: getattr(self, name) for name in ("tries", "threshold", "temperature", "top_k")}
        switched = ("decompose", "examine", "pick", "demonstrations")
        found |= {name: False if getattr(self, f"no_{name}") else None for name in switched}
        tuned = ("listwise", "summarize_single", "summarize_known", "prefer_reliable")
        found |= {name: getattr(self, name) for name in tuned}
        found["select"] = self.select or None
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class MethodOptions(KeqaOptions):
    """What methods are made from: settings, passages and compiled programs."""

    index: Annotated[Index, Panel("Method")] = None
    retriever: Annotated[
        Literal["bm25", "dense", "hybrid"] | None,
        _setting(
            help="What searches the testbed's encyclopedia; of your own corpus, the engine that keqa index was given.",
            show_default="bm25",
        ),
    ] = None
    program: Annotated[
        list[Path] | None,
        _setting(
            "--program",
            "-p",
            help="A compiled program, for the method that it was compiled for; that of a KEQA also for what is made of "
            "it. Once for each method; testbed is the KEQA that ships.",
            show_default=False,
        ),
    ] = None
    embedder: Annotated[Embedder, Panel("Method")] = None
