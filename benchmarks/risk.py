"""How often a promised risk is held: random divisions of stored run files into calibration and further questions.

    python benchmarks/risk.py RUN.jsonl... [--risk 0.1] [--delta 0.1] [--splits 200]

Asks nobody: run files of ``keqa evaluate`` are all that is read, each a method of its own. Each time half of a run's
questions calibrate (`keqa.optimize.abstention`) and the others are answered or not. A division over the risk is one
whose given answers among the others are wrong more often than the risk. The bound is on the questions that a run's are
drawn from, and the other half is a sample of these: the share of divisions over the risk may exceed delta by the
chance of that sample, and beside it stands the share in which the other half refutes the bound (an exact binomial test,
p < .05). Coverage is over all divisions, 0 where the program refuses. The last line is JSON.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from keqa.evaluation.risk import outcomes_of
from keqa.metrics.abstention import Selective
from keqa.optimize.abstention import CalibrationAnswer, UnheldRiskError, calibrate

_REFUTED = 0.05


@dataclass(frozen=True)
class Division:
    """One division of a run's questions."""

    refused: bool
    expected: float
    seen: Selective


def divided(outcomes: Sequence[CalibrationAnswer], risk: float, delta: float, seed: int) -> Division:
    order = random.Random(f"risk {seed}").sample(list(outcomes), len(outcomes))
    calibration, others = order[: len(order) // 2], order[len(order) // 2 :]
    try:
        held = calibrate(calibration, risk, delta, seed)
    except UnheldRiskError:
        return Division(True, 0.0, Selective.of([None] * len(others)))
    gate = held.abstention
    given = [one.right if gate.confidence.of(one.record) >= gate.threshold else None for one in others]
    return Division(False, held.controlled.coverage, Selective.of(given))


def figures_of(divisions: Sequence[Division], risk: float) -> dict[str, Any]:
    from scipy.stats import binom

    def refuted(seen: Selective) -> bool:
        wrong = seen.answered - seen.right
        return bool(seen.answered and binom.sf(wrong - 1, seen.answered, risk) < _REFUTED)

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    risks = [one.seen.risk for one in divisions if one.seen.risk is not None]
    return {
        "splits": len(divisions),
        "over_risk": mean([(one.seen.risk or 0.0) > risk for one in divisions]),
        "refuted": mean([refuted(one.seen) for one in divisions]),
        "refused": mean([one.refused for one in divisions]),
        "coverage": mean([one.seen.coverage for one in divisions]),
        "expected_coverage": mean([one.expected for one in divisions]),
        "risk_seen": mean(risks) if risks else None,
        "credit": mean([one.seen.credit(1 - risk) for one in divisions]),
    }


def main(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run files of keqa evaluate.")],
    risk: Annotated[float, typer.Option(help="The share of the answers that may be wrong.")] = 0.1,
    delta: Annotated[float, typer.Option(help="The chance that this does not hold.")] = 0.1,
    splits: Annotated[int, typer.Option(min=1, help="Divisions of each run.")] = 200,
) -> None:
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        outcomes = outcomes_of(run)
        everything = Selective.of([one.right for one in outcomes])
        figures = figures_of([divided(outcomes, risk, delta, seed) for seed in range(splits)], risk)
        guessing = {"questions": len(outcomes), "risk_answering_all": everything.risk}
        found[run.stem] = guessing | {"credit_answering_all": everything.credit(1 - risk)} | figures
    names = list(next(iter(found.values())))
    table = Table("run", *(name.replace("_", " ") for name in names), title=f"risk {risk:g}, delta {delta:g}")
    for run_name, figures in found.items():
        table.add_row(run_name, *("" if value is None else f"{value:.3g}" for value in figures.values()))
    Console(width=180).print(table)
    print(json.dumps({"risk": risk, "delta": delta, "runs": found}))


if __name__ == "__main__":
    typer.run(main)
