"""``keqa reproduce paper``: the KEQA paper's experiments with a language model and corpus of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keqa.cli.options import LanguageModels, MethodOptions, RunOptions
from keqa.cli.reproduce import PaperOptions
from keqa.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from keqa.evaluation.questions import Questions
    from keqa.evaluation.reports.grid import Grid
    from keqa.evaluation.reproduction.experiments import Experiment

_TABLES = "tables"
"""The folder of tables and figures, beside those of the data sets."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and with what.

    Attributes:
        experiments: The runs.
        questions: By data set.
        models: The language models of all roles.
        options: Corpora, other language models of the task, and how to run.
        out: Where run files go, a folder a data set.
    """

    experiments: list[Experiment]
    questions: dict[str, Questions]
    models: LanguageModels
    options: PaperOptions
    out: Path

    @property
    def others(self) -> list[str]:
        """Other language models of the task, for Table 4."""
        return list(dict.fromkeys(self.options.other_lm or ()))

    def index_of(self, one: Experiment) -> str | None:
        """The corpus of an experiment."""
        return self.options.dense_index if one.dense else self.options.index

    def models_of(self, other: int | None) -> LanguageModels:
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


def reproduce_paper(out: Path, models: LanguageModels, options: PaperOptions, *, as_json: bool) -> None:
    """Run the paper's experiments, or estimate what they cost; see `keqa.cli.reproduce.reproduce`.

    Raises:
        InputError: There is no language model or index, or a data set is none of the paper's.
        ConfigurationError: A key, model or setting is wrong.
    """
    from keqa.cli.console import results, show_figures, warn
    from keqa.evaluation.reports.rendering.terminal import Rendered
    from keqa.evaluation.reproduction.experiments import LEARNED, check_labels, experiments
    from keqa.evaluation.reproduction.published import DATASETS

    if models.lm is None or options.index is None:
        raise InputError("keqa reproduce paper needs --lm, the language model, and --index, the corpus")
    models.check()
    compiled, dense = options.program is not None, options.dense_index is not None
    named = {one.partition(":")[0]: one for one in options.data or DATASETS}
    others = list(dict.fromkeys(options.other_lm or ()))
    planned = list(experiments(list(named), program=compiled, dense=dense, others=others))
    questions = {name: _sample_of(source, options) for name, source in named.items()}
    plan = Plan(planned, questions, models, options, out)
    check_labels(planned, plan.out)
    _check_models(plan)
    if not compiled:
        warn(f"left out, for they need --program: {', '.join(LEARNED)}")
    grids = [_estimated(plan)] if options.dry_run else _measured(plan)
    if as_json:
        show_figures({grid.name: _rows(grid) for grid in grids})
        return
    for grid in grids:
        results().print(Rendered(grid))


def _sample_of(source: str, options: PaperOptions) -> Questions:
    """The sample of a data set, without the questions that the program learned from unless they are allowed."""
    from keqa.evaluation.questions import of_name, without_learned
    from keqa.evaluation.reproduction.experiments import SAMPLE
    from keqa.programs.learned import NOTHING
    from keqa.programs.saving.folder import learned_of

    wanted = options.sample or SAMPLE
    apart = options.program is not None and not options.allow_overlap
    learned = learned_of(options.program) if apart and options.program is not None else NOTHING
    known = len(learned.train) + len(learned.validation)
    return without_learned(of_name(source, sample=wanted + known), learned, wanted)


def _check_models(plan: Plan) -> None:
    """Build every language model, so that a wrong one is reported before the first question; a dry run asks none.

    Raises:
        ConfigurationError: A string names nothing usable, or a key or an address is missing that is needed.
    """
    from keqa.lms import check_model

    if plan.options.dry_run:
        for model in (*_by_role(plan.models).values(), *plan.others):
            check_model(model)
        return
    plan.models.roles()
    for number, model in enumerate(plan.others):
        try:
            plan.models_of(number).roles()
        except ConfigurationError as error:
            raise ConfigurationError(
                f"--other-lm {model}: {error} (--api-base is the address of --lm; another model's is read from the "
                "environment, such as HOSTED_VLLM_API_BASE.)"
            ) from error


def _by_role(models: LanguageModels) -> dict[str, str]:
    """The model string of each role."""
    lm = str(models.lm)
    return {"task": lm, "consistency": models.consistency_lm or lm, "utility": models.utility_lm or lm}


def _estimated(plan: Plan) -> Grid:
    """Calls, tokens and price, from a rehearsal; no language model is asked."""
    from keqa.cli.console import status
    from keqa.cli.opening import open_retriever
    from keqa.evaluation.build import Parts, merged, own_of
    from keqa.evaluation.reproduction.estimate import estimate, estimates
    from keqa.evaluation.reproduction.experiments import settings_for

    found = []
    with status().status("rehearsing…") as shown:
        for one in plan.experiments:
            models, questions = plan.models_of(one.lm), plan.questions[one.dataset]
            retriever = open_retriever(plan.index_of(one), models.lm)
            own = merged(questions.settings, own_of(models.lm))
            for spec in one.specs:
                shown.update(f"rehearsing {spec.label} on {one.dataset}")
                parts = Parts(retriever, None, settings_for(spec.method, one.dataset), plan.options.program, own=own)
                found.append(estimate(one.dataset, spec, list(questions.examples), parts, _by_role(models)))
    return estimates(found)


def _measured(plan: Plan) -> list[Grid]:
    """Run everything, write tables and figures, and put the paper's beside them."""
    from keqa.cli.console import status
    from keqa.evaluation.reports import tables, write
    from keqa.evaluation.reports.rows import entries_of
    from keqa.evaluation.reports.summary import read_brief
    from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper

    paths = [path for one in plan.experiments for path in _run(plan, one)]
    runs = [read_brief(path) for path in paths]
    written = write(plan.out / _TABLES, runs)
    status().print(f"{len(written)} files in {plan.out / _TABLES}", soft_wrap=True)
    return [*tables(runs), *compare_with_paper(entries_of(runs))]


def _run(plan: Plan, one: Experiment) -> Iterator[Path]:
    """The run files of an experiment. A method that needs token probabilities is left out where the LM gives none."""
    from keqa.cli.run_table import warn_of_failures
    from keqa.cli.running import rows_of
    from keqa.evaluation.reproduction.experiments import settings_for

    models, paper = plan.models_of(one.lm), plan.options
    made_from = MethodOptions(index=plan.index_of(one), program=[paper.program] if paper.program else None)
    run = RunOptions(
        out=plan.out / one.dataset,
        in_flight=paper.in_flight,
        retry_failed=paper.retry_failed,
        allow_overlap=paper.allow_overlap,
    )
    # Neighbours with the same settings are run together, and the order stays that of the tables.
    for settings, alike in groupby(one.specs, key=lambda spec: settings_for(spec.method, one.dataset)):
        rows = rows_of(
            list(alike), plan.questions[one.dataset], models, made_from, run, settings=settings, leave_out=True
        )
        warn_of_failures(rows, f"{one.dataset}, ")
        yield from (row.path for row in rows)


def _rows(grid: Grid) -> list[dict[str, Any]]:
    names = [column.full for column in grid.columns]
    return [dict(zip(names, (cell.value for cell in row.cells), strict=True)) for row in grid.rows]
