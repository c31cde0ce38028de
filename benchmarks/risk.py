"""How often a promised risk is held: random divisions of stored run files into calibration and further questions.

    python benchmarks/risk.py RUN.jsonl... [--risk 0.1] [--delta 0.1] [--splits 200]

Asks nobody. Each time half of a run's questions calibrate and the others are answered or not. A division over the risk
is one whose given answers among the others are wrong more often than the risk. The bound is on the questions that a
run's are drawn from, and the other half is a sample of these: the share over the risk may exceed delta by the chance of
that sample, and beside it stands the share in which the other half refutes the bound (an exact binomial test, p < .05).
Coverage is over all divisions, 0 where the program refuses.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import common
from common import show
from scipy.stats import binom

from keqa.evaluation.risk import outcomes_of
from keqa.metrics.abstention import Declining
from keqa.optimize.abstention import CalibrationAnswer, UnheldRiskError, calibrate

_REFUTED = 0.05


class Division(NamedTuple):
    """One division of a run's questions."""

    refused: bool
    expected: float
    seen: Declining


def divided(outcomes: Sequence[CalibrationAnswer], risk: float, delta: float, seed: int) -> Division:
    order = random.Random(f"risk {seed}").sample(list(outcomes), len(outcomes))
    calibration, others = order[: len(order) // 2], order[len(order) // 2 :]
    try:
        held = calibrate(calibration, risk, delta, seed)
    except UnheldRiskError:
        return Division(True, 0.0, Declining(len(others)))
    gate = held.abstention
    given = [one.right for one in others if gate.confidence.of(one.record) >= gate.threshold]
    return Division(False, held.controlled.coverage, Declining(len(others), len(given), sum(given)))


def figures_of(divisions: Sequence[Division], risk: float) -> dict[str, float | None]:
    seen = [one.seen for one in divisions]
    risks = [one.risk for one in seen if one.risk is not None]
    refuted = [one.answered and binom.sf(one.answered - one.right - 1, one.answered, risk) < _REFUTED for one in seen]
    return {
        "over the risk": fmean((one.risk or 0.0) > risk for one in seen),
        "refuted": fmean(map(bool, refuted)),
        "refused": fmean(one.refused for one in divisions),
        "coverage": fmean(one.coverage for one in seen),
        "expected": fmean(one.expected for one in divisions),
        "risk seen": fmean(risks) if risks else None,
        "credit": fmean(one.credit(1 - risk) for one in seen),
    }


def main() -> None:
    given = common.options(__doc__, "runs", runs=[Path], risk=0.1, delta=0.1, splits=200)
    rows = []
    for run in given.runs:
        outcomes = outcomes_of(run)
        everything = Declining(len(outcomes), len(outcomes), sum(one.right for one in outcomes))
        divisions = [divided(outcomes, given.risk, given.delta, seed) for seed in range(given.splits)]
        whole = {"questions": len(outcomes), "risk of answering all": everything.risk}
        whole["credit of answering all"] = everything.credit(1 - given.risk)
        rows.append({"run": run.stem, **whole, **figures_of(divisions, given.risk)})
    show(rows, f"risk {given.risk:g}, delta {given.delta:g}")


if __name__ == "__main__":
    main()
