"""What the preset paper will cost: calls, tokens and price, from a rehearsal or a smaller run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from keqa.cli.console import status
from keqa.cli.opening import open_corpus
from keqa.cli.paper.plan import UTILITY_REFERENCE, Plan, models_by_role
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reproduction.estimate import (
    Estimate,
    estimate,
    estimate_compiling,
    estimate_labels,
    estimate_reference,
    estimates,
    expected,
    spent_by_run,
    spent_on_training,
)
from keqa.evaluation.reproduction.experiments import SETTINGS, Experiment, analysed, settings_for
from keqa.evaluation.reproduction.rehearsal import rehearsed_program
from keqa.evaluation.reproduction.training import REFERENCE, of_set
from keqa.programs.build import Parts, make, own_of
from keqa.programs.registry import METHODS, Spec


def estimate_plan(plan: Plan) -> Grid:
    """Calls, tokens and price, from a rehearsal; no language model is asked."""
    found: list[Estimate] = []
    options = plan.options
    with tempfile.TemporaryDirectory(prefix="keqa-") as folder, status().status("rehearsing…") as shown:
        program = plan.program
        by_role = models_by_role(plan.models)
        if plan.training is not None and program is None:
            shown.update(f"rehearsing {UTILITY_REFERENCE}")
            retriever = open_corpus(options.index, plan.models.lm)
            learned = list(plan.training.examples)
            found.append(
                _building(plan, estimate_reference(UTILITY_REFERENCE, learned, retriever, SETTINGS, by_role["task"]))
            )
            program = rehearsed_program(learned, retriever, Path(folder) / "program", int(SETTINGS["top_k"]))
        for one in plan.experiments:
            models, questions = plan.models_of(one.lm), plan.questions[one.dataset]
            retriever = open_corpus(plan.index_of(one), models.lm)
            own = {**questions.settings, **own_of(models.lm)}
            for spec in one.specs:
                shown.update(f"rehearsing {spec.label} on {one.dataset}")
                settings = settings_for(spec.method, one.dataset)
                parts = Parts(retriever, None, settings, None if one.compiled else program, own=own)
                if one.compiled and plan.training is not None:
                    found.append(_compiling(plan, one, spec, parts, of_set(plan.training, one.dataset)))
                examples = list(questions.examples)
                rehearsed = estimate(one.dataset, spec, examples, parts, models_by_role(models))
                found.append(_asking(plan, one, spec, rehearsed))
            if options.labelling_lm and analysed(one.dataset) and one.lm is None and not (one.compiled or one.dense):
                parts = Parts(retriever, None, settings_for(METHODS["keqa"], one.dataset), program, own=own)
                found.append(
                    estimate_labels(one.dataset, list(questions.examples), parts, by_role, options.labelling_lm)
                )
    return estimates(found)


def _building(plan: Plan, rehearsed: Estimate) -> Estimate:
    pilot = plan.options.pilot
    task = models_by_role(plan.models)["task"]
    spent = None if pilot is None else spent_on_training(pilot / REFERENCE, task)
    return expected(rehearsed, None if spent is None else (spent.asked, spent.by_model))


def _compiling(plan: Plan, one: Experiment, spec: Spec, parts: Any, learned: list[Any]) -> Estimate:
    """What it will cost that a baseline learns."""
    models, pilot = models_by_role(plan.models), plan.options.pilot
    label = f"{one.dataset}, {spec.method.name} learns"
    plain = estimate(one.dataset, spec, learned, parts, models)
    rehearsed = estimate_compiling(plain, label, len(make(spec, parts).predictors()))
    if pilot is None:
        return rehearsed
    spent = spent_on_training(plan.compiled(one.dataset, spec.method.name, pilot), models["task"])
    if spent is None:
        return rehearsed
    return expected(rehearsed, (spent.asked, spent.by_model), spent.asks(len(learned)))


def _asking(plan: Plan, one: Experiment, spec: Spec, rehearsed: Estimate) -> Estimate:
    pilot = plan.options.pilot
    if pilot is None:
        return rehearsed
    return expected(rehearsed, spent_by_run(pilot / one.dataset, spec.label, models_by_role(plan.models_of(one.lm))))
