"""The runs of ``keqa reproduce paper``: what they will cost, and what comes out of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from keqa.cli.running import Models

if TYPE_CHECKING:
    from keqa.evaluation.questions import Questions
    from keqa.evaluation.reports.grid import Grid
    from keqa.evaluation.reproduction.experiments import Experiment

__all__ = ["TABLES", "Plan", "by_role", "estimated", "measured"]

TABLES = "tables"
"""The folder of tables and figures, beside those of the data sets."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and with what.

    Attributes:
        experiments: The runs.
        questions: By data set.
        models: The language models of all roles.
        others: Other language models of the task, for Table 4.
        index: The corpus.
        dense_index: The same with a dense retriever.
        program: A compiled program.
        in_flight: Questions in work at once.
        retry_failed: Ask failed and impaired questions of an earlier run again.
        out: Where run files go, a folder a data set.
    """

    experiments: list[Experiment]
    questions: dict[str, Questions]
    models: Models
    others: list[str]
    index: str
    dense_index: str | None
    program: Path | None
    in_flight: int
    retry_failed: bool
    out: Path

    def models_of(self, other: int | None) -> Models:
        """The language models of an experiment.

        Args:
            other: Position of another LM for the task; the discriminators that were named stay, where they are.
        """
        from keqa.lms import address_for

        models = self.models
        if other is None:
            return models

        def address(model: str | None, own: str | None) -> str | None:
            return model and address_for(model, own, str(models.lm), models.api_base)

        consistency = address(models.consistency_lm, models.consistency_api_base)
        utility = address(models.utility_lm, models.utility_api_base)
        known = {models.consistency_lm: consistency, models.utility_lm: utility}
        return replace(
            models,
            lm=self.others[other],
            api_base=known.get(self.others[other]),
            consistency_api_base=consistency,
            utility_api_base=utility,
        )


def by_role(models: Models) -> dict[str, str]:
    """The model string of each role."""
    lm = str(models.lm)
    return {"task": lm, "consistency": models.consistency_lm or lm, "utility": models.utility_lm or lm}


def estimated(plan: Plan) -> Grid:
    """Calls, tokens and price, from a rehearsal; no language model is asked."""
    from keqa.cli.console import status
    from keqa.cli.given import open_retriever
    from keqa.evaluation.build import Parts, own_of
    from keqa.evaluation.reproduction.estimate import estimate, estimates
    from keqa.evaluation.reproduction.experiments import settings_for

    found = []
    with status().status("rehearsing…") as shown:
        for one in plan.experiments:
            models, questions = plan.models_of(one.lm), plan.questions[one.dataset]
            retriever = open_retriever(plan.dense_index if one.dense else plan.index, models.lm)
            own = {**questions.settings, **own_of(models.lm)}
            for spec in one.specs:
                shown.update(f"rehearsing {spec.label} on {one.dataset}")
                parts = Parts(retriever, None, settings_for(spec.method, one.dataset), plan.program, own=own)
                found.append(estimate(one.dataset, spec, list(questions.examples), parts, by_role(models)))
    return estimates(found)


def measured(plan: Plan) -> list[Grid]:
    """Run everything, write tables and figures, and put the paper's beside them."""
    from keqa.cli.console import status
    from keqa.evaluation.reports import tables, write
    from keqa.evaluation.reports.rows import entries_of
    from keqa.evaluation.reports.summary import read_brief
    from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper

    paths = [path for one in plan.experiments for path in _run(plan, one)]
    runs = [read_brief(path) for path in paths]
    written = write(plan.out / TABLES, runs)
    status().print(f"{len(written)} files in {plan.out / TABLES}", markup=False, soft_wrap=True)
    return [*tables(runs), *compare_with_paper(entries_of(runs))]


def _run(plan: Plan, one: Experiment) -> Iterator[Path]:
    """The run files of an experiment. A method that needs token probabilities is left out where the LM gives none."""
    from keqa.cli.console import status
    from keqa.cli.run_table import told_failures
    from keqa.cli.running import Asking, rows_of
    from keqa.evaluation.reproduction.experiments import settings_for

    asking = Asking(
        plan.questions[one.dataset],
        plan.models_of(one.lm),
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
