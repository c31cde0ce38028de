"""The settings of KEQA and of the methods that it is compared with, what these are made from, and their risk."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from keqa.cli.options.groups import MisplacedOptionError, Panel, Places, option
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.programs.program import Program

_setting = partial(typer.Option, rich_help_panel="Method")

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
    program: Path | None = option(
        "A compiled program, whose settings hold where no option is given; testbed is the one that ships.", "-p"
    )
    embedder: Embedder = None
    no_cache: bool = option(
        "Make every call again; by default DSPy's cache answers what was asked before.", default=False
    )

    def check(self) -> None:
        """Refuse an embedding model without its program."""
        if self.embedder is not None and self.program is None:
            why = "--embedder needs --program: the compiled program whose embedding model it is"
            raise MisplacedOptionError(why, "--embedder")


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
    no_look_first: Annotated[
        bool,
        _setting(
            "--no-look-first",
            help="Over documents of your own, ask the memory also for what they speak of, before they are searched.",
        ),
    ] = False
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

    unanswered: Annotated[
        Literal["say", "guess"] | None,
        _setting(
            help="Where the documents do not say it: say so, or guess, with a mark.",
            show_default="say over an index of your own, guess over the testbed and in comparisons",
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
        found: dict[str, Any] = {}
        for field in fields(KeqaOptions):
            value, name = getattr(self, field.name), field.name.removeprefix("no_")
            if value != field.default:
                found[name] = value if name == field.name else False
        return found


@dataclass(frozen=True)
class MethodOptions(KeqaOptions):
    """What methods are made from: settings, passages and compiled programs."""

    panel = "Method"

    index: Annotated[Index, Panel(panel)] = None
    retriever: Literal["bm25", "dense", "hybrid"] | None = option(
        "What searches the testbed's encyclopedia; of your own corpus, the engine that keqa index was given.",
        shown="bm25",
    )
    program: list[Path] | None = option(
        "A compiled program, for the method that it was compiled for; that of a KEQA also for what is made of it. "
        "Once for each method; testbed is the KEQA that ships.",
        "-p",
        shown=False,
    )
    embedder: Annotated[Embedder, Panel(panel)] = None


@dataclass(frozen=True)
class RiskOptions:
    """The share of wrong answers that a program may give."""

    panel = "Method"

    risk: float | None = option(
        'Answer only so that this share of the answers is wrong at most, else say "I do not know"; 0.1 is one in ten. '
        "Needs --calibrated-on.",
    )
    calibrated_on: Path | None = option(
        "The run file of this program over questions like yours, made by keqa evaluate without --risk."
    )
    delta: float = option("The chance that --risk does not hold.", default=0.1)

    def check(self) -> None:
        """Refuse one option without the other."""
        if self.risk is not None and self.calibrated_on is None:
            raise MisplacedOptionError(
                "--risk needs --calibrated-on: the run file of this program over questions with known answers that it "
                "has not learned from, which keqa evaluate writes",
                "--risk",
            )
        if self.risk is None and (self.calibrated_on is not None or self.delta != RiskOptions.delta):
            why = "--calibrated-on and --delta need --risk: the share of the answers that may be wrong"
            raise MisplacedOptionError(why, "--calibrated-on", "--delta")

    def hold(self, program: Program) -> str:
        """Let a program hold the risk, where one is given; what is to be said before it is asked."""
        if self.risk is None or self.calibrated_on is None:
            return ""
        from keqa.evaluation.risk import hold_risk

        return f"--risk {self.risk:g}: {hold_risk(program, self.calibrated_on, self.risk, delta=self.delta)}"
