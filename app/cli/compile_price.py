"""What a compilation will cost, said before its first call, and whether it shall go on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from keqa.cli.console import results, show_json, status
from keqa.cli.options import option
from keqa.errors import InputError, TooManyFailuresError

if TYPE_CHECKING:
    from keqa.evaluation.reproduction.estimate import Estimate
    from keqa.optimize.split import Split
    from keqa.programs.build import Parts
    from keqa.programs.registry import Spec


@dataclass(frozen=True)
class PriceOptions:
    """What a compilation may cost."""

    panel = "Price"

    limit_cost: float = option(
        "Ask first where it may cost more US dollars; without a terminal, do not begin.", default=5.0, min=0.0
    )
    yes: bool = option("Begin whatever it may cost.", "-y", default=False)
    dry_run: bool = option("Estimate calls, tokens and price, and ask nothing.", default=False)

    def agree(
        self,
        spec: Spec,
        parts: Parts,
        questions: Split,
        models: Mapping[str, str],
        learning: Mapping[str, Any],
        *,
        work: Path,
        as_json: bool,
    ) -> None:
        """Say what it will cost, and ask where that may be above the limit."""
        from keqa.evaluation.reproduction.estimate import estimate_compilation, estimates

        # The model that ships costs seconds.
        if set(models.values()) == {"keqa/tiny"} and not self.dry_run:
            return
        with status().status("rehearsing…"):
            try:
                found = estimate_compilation(spec, parts, questions, models, learning)
            except TooManyFailuresError as error:
                raise InputError(f"what it will cost cannot be estimated: {error}") from error
        further = [f"What {work} holds is not asked again."] if any(work.glob("*")) else []
        if learning["optimizer"] not in ("bootstrap", "none"):
            further.append(f"What {learning['optimizer']} itself asks is not in it.")
        if self.dry_run:
            from keqa.evaluation.reports.render import Rendered

            grid = estimates([found])
            if as_json:
                show_json({grid.name: grid.records})
            else:
                results().print(Rendered(grid), *further, sep="\n")
            return
        most = _dollars(found)[1]
        status().print(" ".join([_said(found), *further]), soft_wrap=True)
        if self.yes or most is None or most <= self.limit_cost:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise InputError(
                f"it may cost more than {self.limit_cost:g} US dollars: give --yes, or a higher --limit-cost"
            )
        if not typer.confirm(f"It may cost more than {self.limit_cost:g} US dollars. Begin?", err=True):
            raise typer.Exit


def _said(found: Estimate) -> str:
    """What it will cost, in a sentence."""
    least, most = found.total.least, found.total.most
    dollars = _dollars(found)
    paid = "at a price that is not known" if None in dollars else f"${dollars[0]:,.2f} to ${dollars[1]:,.2f}"
    tokens = f"{least.read + least.written:,.0f} to {most.read + most.written:,.0f} tokens"
    return (
        f"Compiling will take about {least.calls:,.0f} to {most.calls:,.0f} LM calls and {tokens}, {paid} "
        f"({', '.join(found.bounds)}; rehearsed without them)."
    )


def _dollars(found: Estimate) -> tuple[float | None, float | None]:
    """At least and at most; None where a price is not known."""
    from keqa.evaluation.reproduction.estimate import price

    ends = [(price(model, of.least), price(model, of.most)) for model, of in found.bounds.items()]
    least, most = ([one for one in end if one is not None] for end in zip(*ends, strict=True))
    return (sum(least), sum(most)) if len(least) == len(ends) else (None, sum(most) if most else None)
