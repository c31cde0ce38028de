"""How often a promised risk is held: random divisions of stored run files into calibration and further questions.

    python benchmarks/risk.py RUN.jsonl... [--risk 0.1] [--delta 0.1] [--splits 200]

A division over the risk is one whose given answers among the questions that do not calibrate are wrong more often than
the risk; since these are a sample, beside it stands the share in which they refute the bound (an exact binomial test,
p < .05). Coverage is over all divisions, 0 where the program refuses.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from common import options, show
from scipy.stats import binom

from keqa.evaluation.risk import outcomes_of
from keqa.metrics.abstention import Declining
from keqa.optimize.abstention import CalibrationAnswer, UnheldRiskError, calibrate

_REFUTED = 0.05


def divided(outcomes: Sequence[CalibrationAnswer], risk: float, delta: float, seed: int) -> dict[str, Any]:
    """What becomes of one division of a run's questions."""
    order = random.Random(f"risk {seed}").sample(list(outcomes), len(outcomes))
    calibration, others = order[: len(order) // 2], order[len(order) // 2 :]
    given, refused = [], False
    try:
        gate = calibrate(calibration, risk, delta, seed).abstention
        given = [one.right for one in others if gate.confidence.of(one.record) >= gate.threshold]
    except UnheldRiskError:
        refused = True
    seen = Declining(len(others), len(given), sum(given))
    return {
        "over the risk": (seen.risk or 0.0) > risk,
        "refuted": bool(given) and binom.sf(len(given) - sum(given) - 1, len(given), risk) < _REFUTED,
        "refused": refused,
        "coverage": seen.coverage,
        "risk seen": seen.risk,
    }


def main() -> None:
    given = options(__doc__, "runs", runs=[Path], risk=0.1, delta=0.1, splits=200)
    rows = []
    for run in given.runs:
        outcomes = outcomes_of(run)
        divisions = [divided(outcomes, given.risk, given.delta, seed) for seed in range(given.splits)]
        figures = {name: [one[name] for one in divisions if one[name] is not None] for name in divisions[0]}
        means = {name: fmean(values) if values else None for name, values in figures.items()}
        wrong = 1 - fmean(one.right for one in outcomes)
        rows.append({"run": run.stem, "questions": len(outcomes), "risk of answering all": wrong, **means})
    show(rows, f"risk {given.risk:g}, delta {given.delta:g}")


if __name__ == "__main__":
    main()
