"""``keqa reproduce paper``: the KEQA paper's experiments with a language model and corpus of the user's."""

import functools
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from keqa.cli.console import Bars, status, warn, warn_of_many
from keqa.cli.declare import MisplacedOptionError, invocation
from keqa.cli.options import LanguageModels, MethodOptions, open_retriever
from keqa.cli.reproduce import PaperOptions
from keqa.cli.running import compiling, preset_rows
from keqa.errors import ConfigurationError, InputError
from keqa.evaluation.compare import run_path
from keqa.evaluation.questions import Questions, of_name, of_training, without_learned
from keqa.evaluation.reports import entries_of, read_brief, tables, write
from keqa.evaluation.reports.grid import Grid
from keqa.evaluation.reports.paper import cases
from keqa.evaluation.reports.published import datasets
from keqa.evaluation.reports.rows import KEQA, Entry, of_method
from keqa.evaluation.reproduction import estimate as costs
from keqa.evaluation.reproduction import experiments as design
from keqa.evaluation.reproduction import training as learning
from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper
from keqa.evaluation.reproduction.rehearsal import rehearsed_program
from keqa.evaluation.run_file import iter_lines
from keqa.lms import Roles, build_lm, check_model, check_reachable
from keqa.programs.build import Parts, make, own_of
from keqa.programs.calls.predictor import NOTHING
from keqa.programs.calls.probabilities import tells_no_probabilities
from keqa.programs.registry import METHODS, Method, Spec
from keqa.programs.saving import check_place, learned_of
from keqa.retrievers import Retriever
from keqa.storage.files import check_writable

# What building it is called where costs are listed.
_REFERENCE = "utility reference R"


def reproduce(out: Path, models: LanguageModels, options: PaperOptions, _: None) -> list[Grid]:
    """Run the paper's experiments, or estimate what they cost; see `keqa.cli.reproduce.reproduce`."""
    _check_options(models, options)
    plan = plan_experiments(out, models, options)
    _check_models(plan)
    if options.dry_run:
        return [_estimated(plan)]
    learning.publish_questions(out / "questions.json", plan.training, plan.questions)
    return _measured(_learned(plan))


def _check_options(models: LanguageModels, options: PaperOptions) -> None:
    if models.lm is None or options.index is None:
        raise InputError("keqa reproduce paper needs --lm, the language model, and --index, the corpus")
    if options.no_reference and (options.program is not None or options.embedder or options.train):
        raise InputError(
            "--no-reference builds nothing and learns nothing: leave out --program, --train and --embedder"
        )
    if options.program is not None and options.embedder:
        why = "--embedder is that of the R that is built: leave it out with --program, which has its own"
        raise MisplacedOptionError(why, "--embedder")
    if options.pilot is not None and not options.dry_run:
        raise InputError("--pilot says what a --dry-run may expect: give both, or neither")


@dataclass(frozen=True)
class Plan:
    """What is to be run, and with what; a ``program`` where KEQA has a utility reference."""

    experiments: list[design.Experiment]
    questions: dict[str, Questions]
    models: LanguageModels
    options: PaperOptions
    out: Path
    training: Questions | None = None
    program: Path | None = None

    @property
    def others(self) -> list[str]:
        return list(dict.fromkeys(self.options.other_lm or ()))

    def index_of(self, one: design.Experiment) -> str | None:
        return self.options.dense_index if one.dense else self.options.index

    def models_of(self, other: int | None) -> LanguageModels:
        return self.models if other is None else self.models.with_another(self.others[other])

    @property
    def of_all(self) -> dict[str, Any]:
        """What everything is set up with besides, R included."""
        return {"demonstrations": False} if self.options.no_demonstrations else {}

    def settings_for(self, method: Method, dataset: str) -> dict[str, Any]:
        return design.settings_for(method, dataset, **self.of_all)

    def own_of(self, one: design.Experiment) -> dict[str, Any]:
        """Methods' own arguments for the questions and the language model of an experiment."""
        return {**self.questions[one.dataset].settings, **own_of(self.models_of(one.lm).lm)}

    def compiled(self, dataset: str, method: str, out: Path | None = None) -> Path:
        """The folder of a baseline that learned from a data set's training questions."""
        return (out or self.out) / dataset / "programs" / method


def plan_experiments(out: Path, models: LanguageModels, options: PaperOptions) -> Plan:
    """The questions, drawn so that none is learned from and asked, and the runs that there are for them."""
    named = {one.partition(":")[0].strip().lower(): one for one in options.data or datasets("keqa")}
    others = list(dict.fromkeys(options.other_lm or ()))
    building = options.program is None and not options.no_reference
    compiling = not options.plain_baselines and (building or bool(options.train))
    # Whether a data set is the paper's is said before its files are looked for.
    left_out = [] if options.program is not None or building else list(design.OF_REFERENCE)
    if options.program is None and (models.name.startswith("keqa/") or options.no_demonstrations):
        left_out.append(design.FEW_SHOT)
    dense = options.dense_index is not None
    planned = list(design.experiments(list(named), dense=dense, left_out=left_out, others=others, compiled=compiling))
    training = None
    if building or compiling:
        sources = learning.training_sources(named, options.train or ())
        training = of_training(sources, sample=options.train_sample or options.sample or design.DESIGN["sample"])
        warn_of_many("passed over: ", training.problems)
    elif options.train:
        raise InputError("--train is learned from by R and by baselines, and neither is wanted: leave it out")
    questions = {name: _sample_of(source, options, training) for name, source in named.items()}
    if left_out:
        warn(f"left out, for there is nothing to make them of: {', '.join(left_out)}")
    return Plan(planned, questions, models, options, out, training, options.program)


def _sample_of(source: str, options: PaperOptions, training: Questions | None) -> Questions:
    """The sample of a data set, without questions that are learned from unless they are allowed."""
    wanted = options.sample or design.DESIGN["sample"]
    learned = NOTHING
    if not options.allow_overlap:
        learned = NOTHING if options.program is None else learned_of(options.program)
        learned = learned if training is None else learned.and_from(training.examples, [])
    known = len(learned.train) + len(learned.validation)
    return without_learned(of_name(source, sample=wanted + known), learned, wanted)


def _check_models(plan: Plan) -> None:
    """Build every language model, so that a wrong one is reported before the first question; a dry run asks none."""
    labelling = plan.options.labelling_lm
    if plan.options.dry_run:
        for model in (*plan.models.by_role.values(), *plan.others, *([labelling] if labelling else [])):
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


def _estimated(plan: Plan) -> Grid:
    """Calls, tokens and price, from a rehearsal or a smaller run; no language model is asked."""
    found: list[costs.Estimate] = []
    options, pilot, by_role = plan.options, plan.options.pilot, plan.models.by_role
    task = by_role["task"]
    with tempfile.TemporaryDirectory(prefix="keqa-") as folder, status().status("rehearsing…") as shown:
        program = plan.program
        if plan.training is not None and program is None:
            shown.update(f"rehearsing {_REFERENCE}")
            retriever = open_retriever(options.index, plan.models.lm, benchmark=True)
            learned = list(plan.training.examples)
            building = costs.estimate_reference(_REFERENCE, learned, retriever, design.SETTINGS | plan.of_all, task)
            spent = None if pilot is None else costs.spent_on_training(pilot / learning.REFERENCE, task)
            found.append(costs.expected(building, (spent.asked, spent.by_model) if spent else None))
            program = rehearsed_program(learned, retriever, Path(folder) / "program", int(design.SETTINGS["top_k"]))
        for one in plan.experiments:
            models, examples = plan.models_of(one.lm), list(plan.questions[one.dataset].examples)
            retriever = open_retriever(plan.index_of(one), models.lm, benchmark=True)
            made_of = Parts(retriever, None, {}, None if one.compiled else program, own=plan.own_of(one))
            for spec in one.specs:
                shown.update(f"rehearsing {spec.label} on {one.dataset}")
                parts = replace(made_of, settings=plan.settings_for(spec.method, one.dataset))
                if one.compiled and plan.training is not None:
                    found.append(_compiling(plan, one, spec, parts, learning.of_set(plan.training, one.dataset)))
                rehearsed = costs.estimate(one.dataset, spec, examples, parts, models.by_role)
                run = None if pilot is None else costs.spent_by_run(pilot / one.dataset, spec.label, models.by_role)
                found.append(costs.expected(rehearsed, run))
            of_the_paper = one.lm is None and not (one.compiled or one.dense)
            if options.labelling_lm and of_the_paper and design.analysed(one.dataset):
                parts = replace(made_of, settings=plan.settings_for(METHODS["keqa"], one.dataset), program=program)
                found.append(costs.estimate_labels(one.dataset, examples, parts, by_role, options.labelling_lm))
    return costs.estimates(found)


def _compiling(plan: Plan, one: design.Experiment, spec: Spec, parts: Parts, learned: list[Any]) -> costs.Estimate:
    models, pilot = plan.models.by_role, plan.options.pilot
    label = f"{one.dataset}, {spec.method.name} learns"
    plain = costs.estimate(one.dataset, spec, learned, parts, models)
    rehearsed = costs.estimate_compiling(plain, label, len(make(spec, parts).predictors()))
    if pilot is None:
        return rehearsed
    spent = costs.spent_on_training(plan.compiled(one.dataset, spec.method.name, pilot), models["task"])
    return costs.expected(rehearsed, (spent.asked, spent.by_model), spent.asks(len(learned))) if spent else rehearsed


def _learned(plan: Plan) -> Plan:
    """Build R and let baselines learn; the plan with what came of it. What is finished is kept and not done again."""
    if plan.training is None:
        return plan
    check_writable(plan.out, "--out")
    roles = plan.models.roles()
    program, kept = plan.program, []
    found = open_retriever(plan.options.index, plan.models.lm, benchmark=True)
    reachable = functools.cache(partial(check_reachable, roles.every))
    with compiling(plan.out, found, "training-") as (bars, retriever):
        learner = _Learner(plan, plan.training, retriever, roles, bars, reachable)
        if program is None and not plan.options.no_reference:
            program = learner.reference()
        for one in plan.experiments:
            specs = tuple(filter(partial(learner.learns, one), one.specs)) if one.compiled else one.specs
            kept += [replace(one, specs=specs)] if specs else []
    if program is None:
        # There are no rows that change what a utility reference shows.
        others = [tuple(spec for spec in one.specs if spec.method.name not in design.OF_REFERENCE) for one in kept]
        kept = [replace(one, specs=specs) for one, specs in zip(kept, others, strict=True)]
    return replace(plan, program=program, experiments=kept)


@dataclass(frozen=True)
class _Learner:
    plan: Plan
    training: Questions
    retriever: Retriever
    roles: Roles
    bars: Bars
    reachable: Callable[[], None]

    def reference(self) -> Path | None:
        """Build R; the folder of KEQA with it, or None where no passage made a difference."""
        place = self.plan.out / learning.REFERENCE
        check_place(place)
        embedder = learning.embedder_of(self.plan.options.embedder)
        self.reachable()
        built = learning.build_program(
            self.retriever,
            self.roles,
            self.training,
            place,
            embedder=embedder,
            settings=self.plan.of_all,
            in_flight=self.plan.options.in_flight,
            progress=self.bars.report,
            command=invocation(),
        )
        warn_of_many("", built.problems, self.bars.say)
        if built.folder is None:
            warn("no passage made an answer better or worse: there is no utility reference, and rows are w/o R")
        else:
            summary = f"R: {built.helpful} passages that helped, {built.harmful} that harmed, in {place}"
            status().print(summary, soft_wrap=True)
        return built.folder

    def learns(self, one: design.Experiment, spec: Spec) -> bool:
        """Let a baseline of an experiment learn; whether it could be asked."""
        plan, name = self.plan, f"{one.dataset}, {spec.label}"
        settings = plan.settings_for(spec.method, one.dataset)
        try:
            learned = learning.compile_baseline(
                spec,
                Parts(self.retriever, self.roles, settings, own=plan.own_of(one)),
                learning.of_set(self.training, one.dataset),
                plan.compiled(one.dataset, spec.method.name),
                in_flight=plan.options.in_flight,
                progress=lambda step, done, total: self.bars.report(f"{name}: {step}", done, total),
                before_first=self.reachable,
                command=invocation(),
            )
        except ConfigurationError as error:
            if not tells_no_probabilities(error):
                raise
            self.bars.say(f"{name} is left out: {error}")
            return False
        if not learned:
            self.bars.say(f"{name}: nothing that it learned made it better")
        return True


def _measured(plan: Plan) -> list[Grid]:
    """Run everything, write tables and figures, and put the paper's beside them."""
    found = [(one, path) for one in plan.experiments for path in _run(plan, one)]
    order = list(plan.questions)
    found.sort(key=lambda pair: (order.index(pair[0].dataset), *design.in_table_order(pair[1].stem)))
    entries = entries_of([read_brief(path) for _, path in found])
    labels, labelled_by = _labels(plan, entries)
    more = [*compare_with_paper(entries, labels, labelled_by), *_cases(plan, entries), _spent(plan, found)]
    place = plan.out / "tables"
    status().print(f"{len(write(place, entries, more))} files in {place}", soft_wrap=True)
    return [*tables(entries), *more]


def _run(plan: Plan, one: design.Experiment) -> Iterator[Path]:
    """The run files of an experiment. A method that needs token probabilities is left out where the LM gives none."""
    models, paper = plan.models_of(one.lm), plan.options
    run = paper.run(plan.out / one.dataset)
    # Neighbours with the same settings are run together, and the order stays that of the tables.
    for settings, alike in groupby(one.specs, key=lambda spec: plan.settings_for(spec.method, one.dataset)):
        specs = list(alike)
        served = any(spec.method.kind != "baseline" or spec.method.learned is not None for spec in specs)
        folders = [plan.program] if plan.program and served else None
        if one.compiled:
            folders = [plan.compiled(one.dataset, spec.method.name) for spec in specs]
        made_from = MethodOptions(index=plan.index_of(one), program=folders, embedder=paper.embedder)
        rows = preset_rows(specs, plan.questions[one.dataset], models, made_from, run, settings, leave_out=True)
        yield from (row.path for row in rows)


def _labels(plan: Plan, entries: Sequence[Entry]) -> tuple[Mapping[Any, bool] | None, str]:
    """For Table 2, what the labelling LM says of the pairs that KEQA's judge compared; nothing where none is named."""
    options, keqa = plan.options, of_method(entries, KEQA)
    if options.labelling_lm is None or keqa is None:
        return None, ""
    lm = build_lm(options.labelling_lm, api_base=options.labelling_api_base)
    pairs = learning.pairs_to_label(keqa, filter(design.analysed, plan.questions))
    with Bars() as bars:
        found, failed = learning.label_pairs(
            pairs, lm, plan.out / "labels.journal", in_flight=options.in_flight, progress=bars.report
        )
    if failed:
        why = "for the call failed: the same command asks again"
        warn(f"{failed} of {len(pairs)} pairs of answers have no label, {why}")
    return found, options.labelling_lm


def _cases(plan: Plan, entries: Sequence[Entry]) -> Iterator[Grid]:
    keqa = of_method(entries, KEQA)
    if keqa is None or not plan.options.cases:
        return
    places = ((dataset, run_path(plan.out / dataset, KEQA)) for dataset in plan.questions)
    runs = ((dataset, keqa.title, list(iter_lines(path))) for dataset, path in places if path.exists())
    grid = cases(runs, plan.options.cases)
    if grid is not None:
        yield grid


def _spent(plan: Plan, found: Sequence[tuple[design.Experiment, Path]]) -> Grid:
    rows: list[tuple[str, str, costs.SpentOn]] = []

    def learned(label: str, folder: Path) -> None:
        spent = costs.spent_on_training(folder, plan.models.name)
        if spent is not None:
            rows.append(("training", label, (spent.asked, spent.by_model)))

    if plan.training is not None and plan.options.program is None:
        learned(_REFERENCE, plan.out / learning.REFERENCE)
    for one, path in found:
        method = path.stem.rpartition("-")[0]
        if one.compiled:
            learned(f"{one.dataset}, {method} learns", plan.compiled(one.dataset, method))
        spent = costs.spent_by_run(path.parent, path.stem, plan.models_of(one.lm).by_role)
        if spent is not None:
            rows.append((one.dataset, path.stem, spent))
    return costs.spent_table(rows)
