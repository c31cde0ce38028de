"""The runs of ``keqa reproduce paper``: what they will cost, and what comes out of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keqa.reports.experiments import Experiment
    from keqa.reports.grid import Grid
    from keqa.runs.questions import Questions

__all__ = ["TABLES", "Plan", "estimated", "measured"]

TABLES = "tables"
"""The folder of tables and figures, beside those of the data sets."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and with what.

    Attributes:
        experiments: The runs.
        questions: By data set.
        lm: The language model.
        api_base: Its address.
        others: Other language models, for Table 4.
        index: The corpus.
        dense_index: The same with a dense retriever.
        program: A compiled program.
        in_flight: Questions in work at once.
        retry_failed: Ask failed and impaired questions of an earlier run again.
        out: Where run files go, a folder a data set.
    """

    experiments: list[Experiment]
    questions: dict[str, Questions]
    lm: str
    api_base: str | None
    others: list[str]
    index: str
    dense_index: str | None
    program: Path | None
    in_flight: int
    retry_failed: bool
    out: Path


def estimated(plan: Plan) -> Grid:
    """Calls, tokens and price, from a rehearsal; no language model is asked."""
    from keqa.cli.console import status
    from keqa.cli.given import open_retriever
    from keqa.reports.estimate import estimate
    from keqa.reports.estimate_table import estimates
    from keqa.reports.experiments import settings_for

    found = []
    with status().status("rehearsing…") as shown:
        for one in plan.experiments:
            model = plan.lm if one.lm is None else plan.others[one.lm]
            retriever = open_retriever(plan.dense_index if one.dense else plan.index, model)
            questions = list(plan.questions[one.dataset].examples)
            for spec in one.specs:
                shown.update(f"rehearsing {spec.label} on {one.dataset}")
                settings = settings_for(spec.method, one.dataset)
                found.append(estimate(one.dataset, spec, questions, retriever, settings, plan.program, model))
    return estimates(found)


def measured(plan: Plan) -> list[Grid]:
    """Run everything, write tables and figures, and put the paper's beside them."""
    from keqa.cli.console import status
    from keqa.reports import tables, write
    from keqa.reports.beside import beside_the_paper
    from keqa.reports.brief import read_brief
    from keqa.reports.joining import entries_of

    paths = [path for one in plan.experiments for path in _run(plan, one)]
    runs = [read_brief(path) for path in paths]
    written = write(plan.out / TABLES, runs)
    status().print(f"{len(written)} files in {plan.out / TABLES}", markup=False, soft_wrap=True)
    return [*tables(runs), *beside_the_paper(entries_of(runs))]


def _run(plan: Plan, one: Experiment) -> Iterator[Path]:
    """The run files of an experiment. A method that needs token probabilities is left out where the LM gives none."""
    from keqa.cli.console import status
    from keqa.cli.run_table import told_failures
    from keqa.cli.running import Asking, Models, rows_of
    from keqa.reports.experiments import settings_for

    models = Models(plan.lm, api_base=plan.api_base) if one.lm is None else Models(plan.others[one.lm])
    asking = Asking(
        plan.questions[one.dataset],
        models,
        plan.out / one.dataset,
        plan.dense_index if one.dense else plan.index,
        plan.program,
        in_flight=plan.in_flight,
        retry_failed=plan.retry_failed,
    )
    # Neighbours with the same settings are run together, and the order stays that of the tables.
    for _, alike in groupby(one.specs, key=lambda spec: settings_for(spec.method, one.dataset)):
        together = list(alike)
        settings = settings_for(together[0].method, one.dataset)
        rows = rows_of(together, replace(asking, settings=settings), leave_out=True)
        for line in told_failures(rows):
            status().print(f"{one.dataset}, {line}", style="yellow", markup=False, soft_wrap=True)
        yield from (row.path for row in rows)
