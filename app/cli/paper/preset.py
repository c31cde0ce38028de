"""``keqa reproduce paper``: the KEQA paper's experiments with a language model and corpus of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from keqa.cli.options import refuse_empty
from keqa.errors import InputError

if TYPE_CHECKING:
    from keqa.cli.options import LanguageModels, PaperOptions


def reproduce_paper(out: Path, models: LanguageModels, options: PaperOptions, *, as_json: bool) -> None:
    """Run the paper's experiments, or estimate what they cost; see `keqa.cli.reproduce.reproduce`."""
    from keqa.cli.paper.estimate import estimate_plan
    from keqa.cli.paper.learning import learn
    from keqa.cli.paper.plan import check_models, plan_experiments
    from keqa.cli.paper.tables import measure
    from keqa.cli.run_table import show_grids
    from keqa.evaluation.reproduction.experiments import check_labels
    from keqa.evaluation.reproduction.training import publish_questions

    _check_options(models, options)
    plan = plan_experiments(out, models, options)
    check_labels(plan.experiments, plan.out)
    check_models(plan)
    if options.dry_run:
        grids = [estimate_plan(plan)]
    else:
        publish_questions(out / "questions.json", plan.training, plan.questions, 0)
        grids = measure(learn(plan))
    show_grids(grids, as_json=as_json)


def _check_options(models: LanguageModels, options: PaperOptions) -> None:
    """Refuse what contradicts itself or could have no effect."""
    if models.lm is None or options.index is None:
        raise InputError("keqa reproduce paper needs --lm, the language model, and --index, the corpus")
    models.check()
    refuse_empty("--labelling-lm", options.labelling_lm)
    refuse_empty("--embedder", options.embedder)
    if options.labelling_api_base is not None and options.labelling_lm is None:
        raise InputError("--labelling-api-base needs --labelling-lm: the model that this server serves")
    if options.no_reference and (options.program is not None or options.embedder or options.train):
        raise InputError(
            "--no-reference builds nothing and learns nothing: leave out --program, --train and --embedder"
        )
    if options.program is not None and options.embedder:
        raise InputError("--embedder is that of the R that is built: leave it out with --program, which has its own")
    if options.pilot is not None and not options.dry_run:
        raise InputError("--pilot says what a --dry-run may expect: give both, or neither")
