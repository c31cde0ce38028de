"""The runs of the preset paper, and the tables that come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from keqa.cli.console import status, warn
from keqa.cli.options import MethodOptions
from keqa.cli.paper.plan import UTILITY_REFERENCE, Plan, models_by_role
from keqa.cli.progress import Bars
from keqa.cli.run_table import warn_of_failures
from keqa.evaluation.compare import run_path
from keqa.evaluation.reports import entries_of, read_brief, tables, write
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reports.paper import cases
from keqa.evaluation.reports.rows import KEQA, Entry, of_method
from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper
from keqa.evaluation.reproduction.estimate import SpentOn, spent_by_run, spent_on_training, spent_table
from keqa.evaluation.reproduction.experiments import Experiment, analysed, in_table_order, settings_for
from keqa.evaluation.reproduction.labels import label_pairs, pairs_to_label
from keqa.evaluation.reproduction.training import REFERENCE
from keqa.evaluation.run_file import iter_lines
from keqa.lms import build_lm

_TABLES = "tables"
"""The folder of tables and figures, beside those of the data sets."""


def measure(plan: Plan) -> list[Grid]:
    """Run everything, write tables and figures, and put the paper's beside them."""
    found = [(one, path) for one in plan.experiments for path in _run(plan, one)]
    order = list(plan.questions)
    found.sort(key=lambda pair: (order.index(pair[0].dataset), *in_table_order(pair[1].stem)))
    entries = entries_of([read_brief(path) for _, path in found])
    labels, labelled_by = _labels(plan, entries)
    more = [*compare_with_paper(entries, labels, labelled_by), *_cases(plan, entries), _spent(plan, found)]
    written = write(plan.out / _TABLES, entries, more=more)
    status().print(f"{len(written)} files in {plan.out / _TABLES}", soft_wrap=True)
    return [*tables(entries), *more]


def _run(plan: Plan, one: Experiment) -> Iterator[Path]:
    """The run files of an experiment. A method that needs token probabilities is left out where the LM gives none."""
    from keqa.cli.running import rows_of

    models, paper = plan.models_of(one.lm), plan.options
    run = paper.run(plan.out / one.dataset)
    # Neighbours with the same settings are run together, and the order stays that of the tables.
    for settings, alike in groupby(one.specs, key=lambda spec: settings_for(spec.method, one.dataset)):
        specs = list(alike)
        folders = [plan.program] if plan.program else None
        served = any(spec.method.kind != "baseline" or spec.method.learned is not None for spec in specs)
        if one.compiled:
            folders = [plan.compiled(one.dataset, spec.method.name) for spec in specs]
        made_from = MethodOptions(
            index=plan.index_of(one),
            program=folders if one.compiled or served else None,
            embedder=paper.embedder,
        )
        rows = rows_of(specs, plan.questions[one.dataset], models, made_from, run, settings=settings, leave_out=True)
        warn_of_failures(rows, f"{one.dataset}, ")
        yield from (row.path for row in rows)


def _labels(plan: Plan, entries: Sequence[Entry]) -> tuple[Mapping[Any, bool] | None, str]:
    """For Table 2, what the labelling LM says of the pairs that KEQA's judge compared; nothing where none is named."""
    options, keqa = plan.options, of_method(entries, KEQA)
    if options.labelling_lm is None or keqa is None:
        return None, ""
    lm = build_lm(options.labelling_lm, api_base=options.labelling_api_base)
    pairs = pairs_to_label(keqa, filter(analysed, plan.questions))
    with Bars() as bars:
        found, failed = label_pairs(
            pairs, lm, plan.out / "labels.journal", in_flight=options.in_flight, progress=bars.report
        )
    if failed:
        warn(
            f"{failed} of {len(pairs)} pairs of answers have no label, for the call failed: the same command asks again"
        )
    return found, options.labelling_lm


def _cases(plan: Plan, entries: Sequence[Entry]) -> Iterator[Grid]:
    """Table 6, of KEQA's own runs."""
    keqa = of_method(entries, KEQA)
    if keqa is None or not plan.options.cases:
        return
    places = ((dataset, run_path(plan.out / dataset, KEQA)) for dataset in plan.questions)
    runs = ((dataset, keqa.title, list(iter_lines(path))) for dataset, path in places if path.exists())
    grid = cases(runs, plan.options.cases)
    if grid is not None:
        yield grid


def _spent(plan: Plan, found: Sequence[tuple[Experiment, Path]]) -> Grid:
    """What everything has cost, to stand beside the estimate."""
    rows: list[tuple[str, str, SpentOn]] = []
    task = models_by_role(plan.models)["task"]

    def learned(label: str, folder: Path) -> None:
        spent = spent_on_training(folder, task)
        if spent is not None:
            rows.append(("training", label, (spent.asked, spent.by_model)))

    if plan.training is not None and plan.options.program is None:
        learned(UTILITY_REFERENCE, plan.out / REFERENCE)
    for one, path in found:
        method = path.stem.rpartition("-")[0]
        if one.compiled:
            learned(f"{one.dataset}, {method} learns", plan.compiled(one.dataset, method))
        spent = spent_by_run(path.parent, path.stem, models_by_role(plan.models_of(one.lm)))
        if spent is not None:
            rows.append((one.dataset, path.stem, spent))
    return spent_table(rows)
