"""What the preset paper runs, and with what: experiments, questions, training questions and language models."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from keqa.cli.console import warn, warn_of_many
from keqa.cli.options import LanguageModels, PaperOptions
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.questions import Questions, of_name, of_training, without_learned
from keqa.evaluation.reproduction.experiments import FEW_SHOT, OF_REFERENCE, SAMPLE, Experiment, experiments
from keqa.evaluation.reproduction.published import DATASETS
from keqa.evaluation.reproduction.training import training_sources
from keqa.lms import address_for, build_lm, check_model
from keqa.programs.learned import NOTHING
from keqa.programs.saving.folder import learned_of

UTILITY_REFERENCE = "utility reference R"
"""What building it is called where costs are listed."""


@dataclass(frozen=True)
class Plan:
    """What is to be run, and with what; a ``program`` where KEQA has a utility reference."""

    experiments: list[Experiment]
    questions: dict[str, Questions]
    models: LanguageModels
    options: PaperOptions
    out: Path
    training: Questions | None = field(default=None)
    program: Path | None = None

    @property
    def others(self) -> list[str]:
        """Other language models of the task, for Table 4."""
        return list(dict.fromkeys(self.options.other_lm or ()))

    def index_of(self, one: Experiment) -> str | None:
        """The corpus of an experiment."""
        return self.options.dense_index if one.dense else self.options.index

    def models_of(self, other: int | None) -> LanguageModels:
        """The language models of an experiment, which may have another LM for the task; named discriminators stay."""
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

    def compiled(self, dataset: str, method: str, out: Path | None = None) -> Path:
        """The folder of a baseline that learned from a data set's training questions."""
        return (out or self.out) / dataset / "programs" / method


def plan_experiments(out: Path, models: LanguageModels, options: PaperOptions) -> Plan:
    """The questions, drawn so that none is learned from and asked, and the runs that there are for them."""
    named = {one.partition(":")[0].strip().lower(): one for one in options.data or DATASETS}
    others = list(dict.fromkeys(options.other_lm or ()))
    building = options.program is None and not options.no_reference
    compiling = not options.plain_baselines and (building or bool(options.train))
    # Whether a data set is the paper's is said before its files are looked for.
    left_out = [] if options.program is not None or building else list(OF_REFERENCE)
    if models.lm is not None and models.lm.startswith("keqa/") and options.program is None:
        left_out.append(FEW_SHOT)
    dense = options.dense_index is not None
    planned = list(experiments(list(named), dense=dense, left_out=left_out, others=others, compiled=compiling))
    training = None
    if building or compiling:
        sources = training_sources(named, options.train or ())
        training = of_training(sources, sample=options.train_sample or options.sample or SAMPLE)
        warn_of_many("passed over: ", training.problems)
    elif options.train:
        raise InputError("--train is learned from by R and by baselines, and neither is wanted: leave it out")
    questions = {name: _sample_of(source, options, training) for name, source in named.items()}
    if left_out:
        warn(f"left out, for there is nothing to make them of: {', '.join(left_out)}")
    return Plan(planned, questions, models, options, out, training, options.program)


def _sample_of(source: str, options: PaperOptions, training: Questions | None) -> Questions:
    """The sample of a data set, without questions that are learned from unless they are allowed."""
    wanted = options.sample or SAMPLE
    learned = NOTHING
    if not options.allow_overlap:
        learned = NOTHING if options.program is None else learned_of(options.program)
        learned = learned if training is None else learned.and_from(training.examples, [])
    known = len(learned.train) + len(learned.validation)
    return without_learned(of_name(source, sample=wanted + known), learned, wanted)


def check_models(plan: Plan) -> None:
    """Build every language model, so that a wrong one is reported before the first question; a dry run asks none."""
    labelling = plan.options.labelling_lm
    if plan.options.dry_run:
        for model in (*models_by_role(plan.models).values(), *plan.others, *([labelling] if labelling else [])):
            check_model(model)
        return
    plan.models.roles()
    if labelling:
        build_lm(labelling, api_base=plan.options.labelling_api_base)
    for number, model in enumerate(plan.others):
        try:
            plan.models_of(number).roles()
        except ConfigurationError as error:
            raise ConfigurationError(
                f"--other-lm {model}: {error} (--api-base is the address of --lm; another model's is read from the "
                "environment, such as HOSTED_VLLM_API_BASE.)"
            ) from error


def models_by_role(models: LanguageModels) -> dict[str, str]:
    """The model string of each role."""
    lm = str(models.lm)
    return {"task": lm, "consistency": models.consistency_lm or lm, "utility": models.utility_lm or lm}
