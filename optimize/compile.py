"""Compiling a program against a train split: demonstrations or instructions, utility reference, settings.

1. Demonstrations from the program's own right answers, or another optimizer (`keqa.optimize.dspy_optimizers`);
2. the utility reference (section 3.4), labelled by the program as step 1 left it;
3. α, N_c, top-k, how tries are drawn and what is summarized, for F1 - λ · retrievals - μ · calls; and a boundary
   model, trained on answers from memory to the training questions, which decides instead of α where that is better;
4. by what questions are settled (`keqa.optimize.settling`), so that the whole is not worse than its parts.

The methods that KEQA is compared with take the first step alone.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, TypeGuard, TypeVar, cast

import dspy
from dspy.teleprompt import Teleprompter

from keqa.data.example import Example
from keqa.errors import ConfigurationError, InputError, TooManyFailuresError
from keqa.metrics.answers import f1
from keqa.metrics.significance import paired_bootstrap
from keqa.metrics.utility import Correctness
from keqa.optimize.asking import ROLES, Asking, Progress, Spending, Trial, lms_of, silent
from keqa.optimize.boundary.train import Trained, learn, may_learn
from keqa.optimize.demos import AS_IT_IS, bootstrap, learned_forms
from keqa.optimize.dspy_optimizers import ask_once, optimize, optimizer_settings
from keqa.optimize.finetuning import check_finetunable, finetune, places_beside, save_lms
from keqa.optimize.options import Options, Questions, Split, split
from keqa.optimize.reference import build_reference
from keqa.optimize.report import Report
from keqa.optimize.scoring import as_metric, metric_fingerprint
from keqa.optimize.settling import FEWEST, Ways, too_few
from keqa.optimize.tuning import SETTLE, Tuning, has_tunable_threshold, values_to_try
from keqa.optimize.written import written_quality
from keqa.programs.fingerprint import digest, lm_spec, models_of, program_fingerprint, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.reference.embedding import HASHING
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving import check_apart, check_savable, check_sources, save
from keqa.programs.stage import Stage
from keqa.programs.wrapper import ModuleWrapper
from keqa.storage.journal import Journal
from keqa.storage.redaction import without_folders, without_secrets

P = TypeVar("P", bound=dspy.Module)
K = TypeVar("K", bound=Program)


class Compiled(ModuleWrapper[P]):
    """A compiled program, which is used, nested and compiled again as the program itself; what was learned beside it.

    Where a module was compiled that contains a program, `program` is a copy of the module with the compiled one in it.
    """

    report: Report
    reflection_lm: Any = None
    """The language model that reflected, whose key must not be saved."""
    folder: Path | None = None
    """Where finished work is kept; None where it was a temporary one."""
    lm_folders: Mapping[str, Path] = MappingProxyType({})
    """Where the fine-tuned language models of this process are, by role."""

    @property
    def nested(self) -> Program | None:
        """The compiled program within a module; None where it is `program` itself."""
        return None if isinstance(self.program, Program) else _nested(self.program)

    def save(self, folder: str | Path, *, overwrite: bool = False, **about: Any) -> None:
        """Save the program with the report, and `about` with it; `keqa.load` reads it. Of a module, the one within it.

        A path that ends in ``.json`` or ``.pkl``, and ``save_program=True``, save the module as DSPy does. Fine-tuned
        language models are saved beside the program, as ``FOLDER.lm`` for the model string ``transformers/FOLDER.lm``.
        A program that is there already is replaced if it was compiled from the same sources, or with `overwrite`.
        """
        if about.get("save_program") or Path(folder).suffix in (".json", ".pkl"):
            self.program.save(folder, **about)
            return
        if self.folder is not None:
            check_apart(folder, self.folder)
        if not overwrite:
            check_sources(folder, self.report.sources)
        facts = {**self.report.about(), **about}
        # Of paths the last component stays.
        facts["problems"] = [without_folders(problem) for problem in facts["problems"]]
        if self.lm_folders:
            # By name: program and language models may be moved together.
            facts["language_models"] = {role: place.name for role, place in save_lms(self.lm_folders, folder).items()}
        own: Any = self.program if self.nested is None else self.nested
        save(own, folder, **without_secrets(facts, [self.reflection_lm]))

    def saved_lms(self, folder: str | Path) -> dict[str, Path]:
        """Where `save` puts the fine-tuned language models of a program, by role, those of one model named once."""
        places = places_beside(self.lm_folders, folder)
        first = {place: role for role, place in reversed(places.items())}
        return {role: place for role, place in places.items() if first[place] == role}


def compile_program(
    program: P,
    trainset: Questions,
    valset: Questions | None = None,
    *,
    folder: str | Path | None = None,
    out: str | Path | None = None,
    metric: Callable[..., Any] | None = None,
    progress: Progress = silent,
    before_first: Callable[[], None] = lambda: None,
    **options: Any,
) -> Compiled[P]:
    """Tune every prompt and setting of a program on question-answer pairs. Exported as ``keqa.compile``.

    Args:
        program: A `KEQA`, or one of the methods of `keqa.programs.baselines`, of which demonstrations or instructions
            are all there is to learn; or a module of one's own that contains one of them, which is then compiled by
            questions of its own, as if it stood alone. It stays as it is.
        trainset: Questions with gold answers to learn from: examples, mappings, ``dspy.Example``, or a file of them
            (see `keqa.data.own.read_examples`). Those that cannot be used are named in the report.
        valset: Questions to choose by; without them a quarter of the training questions is held out.
        folder: Where finished work is kept; the same call on the same folder resumes where it was. A temporary one
            where None.
        out: Where the result will be saved, so that a program of other sources in it is found before any call is made.
        metric: Correctness of an answer, as `keqa.metrics.answers.f1` has it; or a metric of DSPy's,
            ``metric(example, prediction, trace)``, which gets your examples with all their fields. Single quizzes, for
            which there are no examples, are then scored by F1. None is F1, and for a program whose `style` is written,
            `keqa.optimize.written.written_quality`.
        progress: See `keqa.optimize.asking.Progress`.
        before_first: Called once all settings are checked and before anything is asked or written; what it raises ends
            the compilation.
        **options: See `keqa.optimize.options.Options`: `optimizer`, `cost_per_retrieval`, `cost_per_call` and more.

    Returns:
        The program and what was learned. No demonstration or instruction is kept that did not score better on the
        validation questions than what it would replace; the utility reference is left out where it is worse beyond
        chance.

    Raises:
        InputError: Nothing can be used, the folder holds other work, or `out` a program of other sources.
        ConfigurationError: A setting, key or model is wrong, or the program could not be saved. What was finished stays
            in the folder.
        MissingExtraError: A package is missing.
        TooManyFailuresError: Most questions of a step failed for a reason that may pass, such as a server that is
            down. What was finished stays in the folder.
    """
    if isinstance(program, ModuleWrapper):
        program = program.program
    if not isinstance(program, Program):
        options |= {"folder": folder, "out": out, "metric": metric, "progress": progress, "before_first": before_first}
        within = compile_program(_nested(program), trainset, valset, **options)
        beside = {name: getattr(within, name) for name in ("report", "reflection_lm", "folder", "lm_folders")}
        return Compiled(_containing(program, within.program), **beside)
    try:
        wanted = Options(**options)
    except TypeError as error:
        raise ConfigurationError(str(error).replace("Options.__init__", "keqa.compile")) from error
    given: list[Any] = [list(some) if isinstance(some, Iterator) else some for some in (trainset, valset)]
    trainset, valset = given
    if metric is None:
        metric = f1 if getattr(program, "style", None) in (None, "auto", "short") else written_quality
    metric = as_metric(metric, trainset, valset)
    parts = split(trainset, valset, wanted.seed)
    chosen = _ready(program, wanted)
    few = chosen.tuning and SETTLE not in chosen.grid and too_few(parts.train, parts.val)
    # Few questions do not say what is better than what keqa ask does.
    asked = program.as_asked if few and isinstance(program, KEQA) else {}
    kept = {name: value for name, value in asked.items() if name not in chosen.grid}
    if kept:
        program = program.deepcopy()
        program.change(**kept)
        chosen = _ready(program, replace(wanted, grid={**dict.fromkeys(kept, ()), **wanted.grid}))
    before_first()
    sources = sources_of(program, parts, chosen, metric)
    if out is not None:
        check_sources(out, sources)
    # What it learns from is noted at once: no question is shown what comes from it.
    start: P = program.deepcopy()
    start.learned = program.learned.and_from(parts.train, parts.val)
    report = Report(chosen.optimizer_name, len(parts.train), len(parts.val), **chosen.costs, sources=sources)
    report.problems += parts.problems
    if kept:
        why = f"{few} to choose how they are settled, {FEWEST} at least"
        without = ", which has no utility reference" if "pick" in kept else ""
        report.problems.append(f"{why}: what was not set is as keqa ask has it{without}")
    where = None if folder is None else Path(folder)
    with ExitStack() as stack:
        place = where or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keqa-compile-")))
        journal = stack.enter_context(Journal.open(place / "calls.journal", _fingerprint(program, metric)))
        asking = Asking(journal, metric, chosen.in_flight, progress)
        spending = stack.enter_context(Spending(journal).counting())
        steps = Steps(parts.train, parts.val, asking, chosen, report, where)
        compiled = cast("P", steps.run(start))
    report.compare(program, compiled)
    report.spent, report.spent_earlier, report.failed = spending.spent, spending.earlier, asking.failures.found
    beside = {"reflection_lm": chosen.reflection_lm, "folder": where, "lm_folders": steps.lm_folders}
    return Compiled(compiled, report=report, **beside)


# Under this name the package exports it.
compile = compile_program


def _nested(module: Any) -> Program:
    found = [one for _, one in module.named_sub_modules(Program)] if isinstance(module, dspy.Module) else []
    if len(found) != 1:
        raise ConfigurationError(
            "keqa.compile takes a KEQA, one of keqa.programs.baselines, or a module that contains exactly one of them: "
            f"{type(module).__name__} contains {len(found) or 'none'}"
        )
    program: Program = found[0]
    return program


def _containing(module: P, compiled: Program) -> P:
    """A copy of a module with a compiled program in the place of the one that it contains."""
    copied: P = module.deepcopy()
    inside = _nested(copied).__dict__
    inside.clear()
    inside.update(compiled.__dict__)
    return copied


def _ready(program: Program, options: Options) -> Options:
    """Check what would otherwise fail in a late step, and open the embedder, before any call is made."""
    check_savable(program)
    tuned = isinstance(program, KEQA)
    for name, weighed in (("cost_per_retrieval", "searches"), ("cost_per_call", "calls")):
        if getattr(options, name) and not (tuned and options.tuning):
            which = "that is left out" if tuned else f"only those of a KEQA are, not of a {type(program).__name__}"
            raise ConfigurationError(f"{name} weighs {weighed} where settings are tuned, and {which}: leave it out")
    if isinstance(program, KEQA) and options.tuning:
        values_to_try(program, options.grid)
    if builds_reference(program, options):
        return replace(options, embedder=empty_reference(program, options).embedder)
    if options.embedder is not None:
        raise ConfigurationError(
            "embedder finds like passages in the utility reference, and none is built: leave it out"
        )
    return options


def builds_reference(program: Program, options: Options) -> TypeGuard[KEQA]:
    """Whether a compilation of a program builds a utility reference: where it is wanted and would be used."""
    # A fine-tuned language model needs no demonstrations, those of the utility judge included.
    wanted = options.reference and options.optimizer != "finetune"
    return isinstance(program, KEQA) and wanted and program.pick and program.retriever is not None


def empty_reference(program: KEQA, options: Options) -> UtilityReference:
    """The reference that a compilation fits: set up as that of the program, where it has one."""
    own = program.picking.reference
    if not isinstance(own, UtilityReference):
        return UtilityReference(options.embedder or HASHING)
    chosen = UtilityReference(options.embedder or own.embedder, k=own.k, least=own.least, variant=own.variant)
    if own.embedder.name not in (HASHING, chosen.embedder.name):
        raise ConfigurationError(
            f"the program's reference has the embedder {own.embedder.name!r}, not {chosen.embedder.name!r}: leave "
            "embedder out, or give the program a reference that has this one"
        )
    return chosen


def _fingerprint(program: Program, metric: Correctness) -> dict[str, Any]:
    """What finished work depends on besides what is asked and of which program; no key or address is in it."""
    lms, models = lms_of(program), models_of(program)
    by_role = {role: lm_spec(dspy.settings.lm if lms is None else getattr(lms, role)) for role in ROLES}
    by_predictor = {name: models[name] for name, _ in program.named_predictors() if name in models}
    return {
        "task": "compilation",
        "metric": metric_fingerprint(metric),
        "models": by_role | by_predictor,
        "retriever": retriever_spec(program.retriever),
    }


def sources_of(program: Program, parts: Split, options: Options, metric: Correctness) -> dict[str, str]:
    """Digests of what a program is compiled from: the same compilation has the same ones."""
    how: dict[str, Any] = {one.name: getattr(options, one.name) for one in dataclasses.fields(options)}
    del how["in_flight"]
    how["training"] = dict(options.training)
    if not how["training"]:
        del how["training"]
    if isinstance(options.optimizer, Teleprompter):
        how["optimizer"] = optimizer_settings(options.optimizer)
    how["grid"] = repr(options.grid)
    how["embedder"] = getattr(options.embedder, "name", options.embedder)
    how["reflection_lm"] = lm_spec(options.reflection_lm)
    return {
        "training questions": digest(list(map(_key, parts.train))),
        "validation questions": digest(list(map(_key, parts.val))),
        "language models, index and metric": digest(_fingerprint(program, metric)),
        "the method and its settings": program_fingerprint(program),
        "how it is compiled": digest(how),
    }


def _key(example: Example) -> str:
    """A question with its answers; what only reports group questions by is left out."""
    fields = dataclasses.asdict(example)
    del fields["kind"], fields["scored_as"]
    if example.one_hop is None:
        del fields["one_hop"]
    return f"{example.id} {digest(fields)}"


@dataclass
class Steps:
    """A compilation under way, which writes into its report.

    A further step is a method that makes a candidate and gives it to `_better`. Fine-tuned language models go where
    `adapters` says.
    """

    train: Sequence[Example]
    val: Sequence[Example]
    asking: Asking
    options: Options
    report: Report
    adapters: Path | None
    lm_folders: Mapping[str, Path] = field(default_factory=dict)

    def run(self, program: Program) -> Program:
        """Take all steps; a program other than KEQA has no reference and no settings to tune."""
        before = program
        program = self._bootstrapped(program) if self.options.optimizer == "bootstrap" else self._learned(program)
        if builds_reference(program, self.options):
            program = self._with_reference(program)
        if self.options.tuning and isinstance(program, KEQA):
            program = self._tuned(program, self._boundary(program), self._forms(program, before))
            if not any(trial.score for trial in self.report.trials):
                self.report.problems.append(
                    "no validation question came out right in any way: what was chosen costs least, and is no better"
                )
        return program

    def _score(self, program: Program, name: str) -> Trial:
        self.report.trials.append(self.asking.trial(program, name, self.val))
        return self.report.trials[-1]

    def _better(self, before: K, candidate: K, name: str, why_not: str, *, only_better: bool = False) -> K:
        """A candidate, where it is better; or, unless it has to be, where it is not worse beyond chance."""
        scores, trial = self.report.after, self._score(candidate, name)
        if only_better:
            kept = trial.score > fmean(scores)
        else:
            kept = len(scores) < 2 or paired_bootstrap(trial.scores, scores).high >= 0
        if not kept:
            self.report.problems.append(why_not)
            return before
        self.report.chosen.append(name)
        return candidate

    def _bootstrapped(self, program: Program) -> Program:
        program, trials, learned = bootstrap(program, self.train, self.val, self.asking, self.options)
        self.report.trials += trials
        self.report.chosen.append(max(trials, key=lambda trial: trial.score).name)
        if not learned:
            self.report.problems.append("no training question came out right, so there are no demonstrations")
        return program

    def _learned(self, program: Program) -> Program:
        """What one of DSPy's optimizers makes of the program, where it is better on the validation questions."""
        options, name = self.options, self.options.optimizer_name
        if name == "finetune":
            check_finetunable(program)
        if options.reflection_lm is not None:
            ask_once(options.reflection_lm)
        self.report.chosen.append(self._score(program, AS_IT_IS).name)
        kept = program
        if name == "finetune":
            found = finetune(program, self.train, self.asking, options, self.adapters)
            why_not = "the fine-tuned language model is worse on the validation questions: left out"
            kept = self._better(program, found.program, name, why_not)
            if kept is found.program:
                self.report.finetuned_on, self.lm_folders = found.conversations, found.folders
        elif name != "none":
            candidate = optimize(program, self.train, self.val, self.asking, options)
            why_not = f"what {name} found is not better on the validation questions: left out"
            kept = self._better(program, candidate, name, why_not, only_better=True)
        if kept is not program:
            self.report.chosen.remove(AS_IT_IS)
        return kept

    def _with_reference(self, program: KEQA) -> KEQA:
        entries, problems = build_reference(program, self.train, self.asking)
        self.report.problems += problems
        if not entries:
            self.report.problems.append("no passage made an answer better or worse, so there is no utility reference")
            return program
        candidate: KEQA = program.deepcopy()
        candidate.picking.reference = empty_reference(program, self.options).fit(entries)
        why_not = "the utility reference made answers worse on the validation questions: left out"
        return self._better(program, candidate, "the utility reference", why_not)

    def _boundary(self, program: KEQA) -> Trained[Any] | None:
        """A boundary model from the training questions, where there are enough and a gate to replace."""
        if not self.options.boundary or not may_learn(program):
            return None
        try:
            return learn(program, self.train, self.val, self.asking, self.options.boundary_tries)
        except TooManyFailuresError:
            raise
        except InputError as error:
            self.report.problems.append(f"no boundary model: {error}")
            return None

    def _forms(self, program: KEQA, before: Program) -> Mapping[str, Stage]:
        """What the stages of one call learn, where they are tried, from the calls that were made of what it was."""
        values = values_to_try(program, self.options.grid)
        tried = any(len(values[name]) > 1 for name in ("draft", "cite"))
        if not tried or self.options.optimizer != "bootstrap" or not isinstance(before, KEQA):
            return {}
        return learned_forms(program, before, self.train, self.asking, self.options)

    def _tuned(self, program: KEQA, boundary: Trained[Any] | None, forms: Mapping[str, Stage]) -> KEQA:
        model = None if boundary is None else boundary.model
        how = {"grid": self.options.grid, "boundary": model, "forms": forms, **self.options.costs}
        found = Tuning(program, self.val, self.asking, **how).run()
        gate = program.examination.gate
        if program.examine and gate.threshold is not None and not has_tunable_threshold(gate):
            self.report.problems.append(
                f"the threshold of the gate {gate.name!r} was left alone: only a dataclass with that field can be "
                "made again with another"
            )
        self.report.curve = found.curve
        for name, by_model in (("tuned settings", False), ("the boundary model", True)):
            if any(point.settings["boundary"] == by_model for point in found.curve):
                point = found.best_of(boundary=by_model)
                self.report.trials.append(Trial(name, point.score, point.scores))
                self.report.chosen += [name] if point is found.best else []
        if boundary is not None:
            self.report.boundary = {
                "reads": boundary.model.reads,
                "tries": self.options.boundary_tries,
                "held_out": boundary.held_out.as_json(),
                "kept": found.best.settings["boundary"],
            }
        if len(found.values[SETTLE]) == 1:
            return found.program
        if few := too_few(self.train, self.val):
            self.report.problems.append(
                f"{few} to choose by between memory, reading and taking apart, {FEWEST} at least: "
                f"{found.start.settle} stays"
            )
            return found.program
        return self._settled(found)

    def _settled(self, tuning: Tuning) -> KEQA:
        found = Ways(tuning, self.train, self.options.threshold).run()
        self.report.settling = found.about()
        self.report.problems += found.problems
        kept, asked = found.kept, found.asked
        tried = {f"settled by {kept.way}": kept} if kept is not asked and kept.point is not tuning.best else {}
        tried |= {"as keqa ask does": asked} if asked is not None else {}
        self.report.trials += [Trial(name, one.point.score, one.point.scores) for name, one in tried.items()]
        if kept is asked:
            # It has nothing of what was tuned.
            self.report.chosen.pop()
        self.report.chosen += [name for name, one in tried.items() if one is kept]
        if self.report.boundary is not None:
            self.report.boundary["kept"] = kept.point.settings["boundary"]
        return found.program
