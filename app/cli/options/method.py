"""The settings of KEQA and of the methods that it is compared with, what these are made from, and their risk."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from keqa.cli.options.groups import MisplacedOptionError, Panel, Places, option
from keqa.errors import InputError
from keqa.programs.arguments import Bounds, Threshold
from keqa.programs.declared import DeclaredKeqa, about

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


def _options() -> list[tuple[str, Any, Any]]:
    """The options that settings of KEQA are said to have where they are declared."""
    made: list[tuple[str, Any, Any]] = []
    for name, (hint, one) in about(DeclaredKeqa).items():
        of, *marks = get_args(hint) or (hint,)
        kind, flag = one.kind or of, name.replace("_", "-")
        shown: dict[str, Any] = {"show_default": one.shown} if one.shown else {}
        if one.option and one.tuned:
            both = _setting(f"--{flag}/--no-{flag}", help=one.option, **shown)
            made.append((name, Annotated[bool | None, both], None))
        elif one.option and kind is bool:
            flag, name = (f"--no-{flag}", f"no_{name}") if getattr(DeclaredKeqa, name) else (f"--{flag}", name)
            made.append((name, Annotated[bool, _setting(flag, help=one.option)], False))
        elif one.option:
            least = next((mark.limits.get("ge", 0) for mark in marks if isinstance(mark, Bounds)), None)
            limits: dict[str, Any] = {} if least is None else {"min": kind(least)}
            made.append((name, Annotated[kind | None, _setting(help=one.option, **limits, **shown)], None))
    return made


def setting_of(name: str) -> str:
    """The setting of KEQA that an option is for; ``no_pick`` is for ``pick``."""
    return name.removeprefix("no_")


_Declared: Any = make_dataclass(
    "_Declared", [(name, kind, field(default=default)) for name, kind, default in _options()], frozen=True
)


@dataclass(frozen=True)
class KeqaOptions(_Declared):
    """The settings of KEQA, of which other methods have some."""

    def settings(self) -> dict[str, Any]:
        """The settings that were given, by the names that a method's constructor and `keqa.load` take.

        Raises:
            InputError: The threshold is no share. It stays as it was written, so that 4 of 5 reaches .8.
        """
        if self.threshold is not None:
            try:
                Threshold.read(self.threshold)
            except ValueError:
                raise InputError(
                    f"--threshold must be a share above 0 and at most 1, such as 0.8 or 4/5, not {self.threshold!r}"
                ) from None
        given = {one.name: getattr(self, one.name) for one in fields(KeqaOptions)}
        return {
            setting_of(one.name): given[one.name] if setting_of(one.name) == one.name else False
            for one in fields(KeqaOptions)
            if given[one.name] != one.default
        }


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
