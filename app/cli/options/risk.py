"""The share of wrong answers that a program may give."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.programs.program import Program

_setting = partial(typer.Option, rich_help_panel="Method")


@dataclass(frozen=True)
class RiskOptions:
    """The share of wrong answers that a program may give."""

    risk: Annotated[
        float | None,
        _setting(
            help='Answer only so that this share of the answers is wrong at most, else say "I do not know"; 0.1 is one '
            "in ten. Needs --calibrated-on.",
            show_default=False,
        ),
    ] = None
    calibrated_on: Annotated[
        Path | None,
        _setting(
            help="The run file of this program over questions like yours, made by keqa evaluate without --risk.",
            show_default=False,
        ),
    ] = None
    delta: Annotated[float, _setting(help="The chance that --risk does not hold.")] = 0.1

    def check(self) -> None:
        """Refuse one option without the other.

        Raises:
            InputError: A risk is not calibrated, or there is none to calibrate.
        """
        if self.risk is not None and self.calibrated_on is None:
            raise InputError(
                "--risk needs --calibrated-on: the run file of this program over questions with known answers that it "
                "has not learned from, which keqa evaluate writes"
            )
        if self.risk is None and (self.calibrated_on is not None or self.delta != RiskOptions.delta):
            raise InputError("--calibrated-on and --delta need --risk: the share of the answers that may be wrong")

    def hold(self, program: Program) -> str:
        """Let a program hold the risk, where one is given.

        Returns:
            What is to be said before it is asked; empty where there is no risk.

        Raises:
            InputError: The run file is that of another program.
            UnheldRiskError: No threshold holds the risk.
        """
        if self.risk is None or self.calibrated_on is None:
            return ""
        from keqa.evaluation.risk import hold_risk

        return f"--risk {self.risk:g}: {hold_risk(program, self.calibrated_on, self.risk, delta=self.delta)}"
