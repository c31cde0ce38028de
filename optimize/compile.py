"""Compiling a program against a train split: demonstrations or instructions, utility reference, settings.

1. Demonstrations from the program's own right answers, or another optimizer (`keqa.optimize.dspy_optimizers`);
2. the utility reference (section 3.4), labelled by the program as step 1 left it;
3. α, N_c, top-k, how tries are drawn and what is summarized, for F1 - λ · retrievals - μ · calls; and a boundary
   model, trained on what the language model answers from memory to the training questions, which decides instead of α
   where that is better.

The methods that KEQA is compared with take the first step alone.

Every call that is made is on disk at once, so a run that was killed resumes where it was: what was asked is read there.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import dspy
from dspy.teleprompt import Teleprompter

from keqa.data.example import Example
from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.optimize.asking import ROLES, Asking, Progress, Spending, lms_of, silent
from keqa.optimize.dspy_optimizers import optimizer_settings
from keqa.optimize.options import Options
from keqa.optimize.report import Report
from keqa.optimize.scoring import as_metric, metric_fingerprint
from keqa.optimize.split import Questions, Split, split
from keqa.optimize.steps import Steps, builds_reference, empty_reference
from keqa.optimize.tuning import values_to_try
from keqa.programs.fingerprint import digest, lm_spec, models_of, program_fingerprint, retriever_spec
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.wrapper import ModuleWrapper
from keqa.storage.journal import Journal

P = TypeVar("P", bound=dspy.Module)


class Compiled(ModuleWrapper[P]):
    """A compiled program, which is used as the program itself: ``compiled("Who wrote Hamlet?")``.

    It is a module that can be nested, evaluated, streamed, copied and compiled again like the one inside it.

    Attributes:
        program: Ready to ask, on the same language models and retriever. Where a module was compiled that contains one,
            a copy of the module that contains the compiled one.
        report: What was learned.
        reflection_lm: The language model that reflected, whose key must not be saved.
        folder: Where finished work is kept; None where it was a temporary one.
        nested: The compiled program within a module; None where it is `program` itself.
        lm_folders: Where the fine-tuned language models of this process are, by role; empty where there are none.
    """

    report: Report
    reflection_lm: Any = None
    folder: Path | None = None
    nested: Program | None = None
    lm_folders: Mapping[str, Path] = MappingProxyType({})

    def save(self, folder: str | Path, *, overwrite: bool = False, **about: Any) -> None:
        """Save the program with the report; `keqa.load` reads it. Of a module, the program within it is saved.

        A path that ends in ``.json`` or ``.pkl``, and ``save_program=True``, save the module as DSPy does.

        Fine-tuned language models are saved beside it, as ``FOLDER.lm``, with the model string
        ``transformers/FOLDER.lm``.

        Args:
            folder: Where to; a program that is there already is replaced if it was compiled from the same sources.
            overwrite: Replace one of other sources, too.
            **about: What else to keep, such as the command. Of paths in problems the last component stays.

        Raises:
            InputError: The folder holds something else, a program of other sources, or the finished work.
        """
        from keqa.programs.saving.folder import check_apart, check_sources, save

        if about.get("save_program") or Path(folder).suffix in (".json", ".pkl"):
            self.program.save(folder, **about)
            return
        from keqa.storage.redaction import without_folders, without_secrets

        if self.folder is not None:
            check_apart(folder, self.folder)
        if not overwrite:
            check_sources(folder, self.report.sources)
        facts = {**self.report.about(), **about}
        facts["problems"] = [without_folders(problem) for problem in facts["problems"]]
        if self.lm_folders:
            from keqa.optimize.finetuning import save_lms

            # By name: program and language models may be moved together.
            facts["language_models"] = {role: place.name for role, place in save_lms(self.lm_folders, folder).items()}
        save(self._own(), folder, **without_secrets(facts, [self.reflection_lm]))

    def saved_lms(self, folder: str | Path) -> dict[str, Path]:
        """Where `save` puts the fine-tuned language models of a program, by role, those of one model named once."""
        from keqa.optimize.finetuning import places_beside

        found: dict[Path, str] = {}
        for role, place in places_beside(self.lm_folders, folder).items():
            found.setdefault(place, role)
        return {role: place for place, role in found.items()}

    def _own(self) -> Program:
        found = self.program if self.nested is None else self.nested
        return cast("Program", found)


def compile_program(
    program: P,
    trainset: Questions,
    valset: Questions | None = None,
    *,
    folder: str | Path | None = None,
    out: str | Path | None = None,
    metric: Callable[..., Any] = f1,
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
            which there are no examples, are then scored by F1.
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
        return Compiled(_containing(program, within.program), nested=within.program, **beside)
    chosen = _read(options)
    trainset, valset = _listed(trainset), _listed(valset)
    metric = as_metric(metric, trainset, valset)
    parts = split(trainset, valset, chosen.seed)
    chosen = _ready(program, chosen)
    before_first()
    fingerprint = compilation_fingerprint(program, metric)
    sources = sources_of(program, parts, chosen, metric)
    if out is not None:
        from keqa.programs.saving.folder import check_sources

        check_sources(out, sources)
    # What it learns from is noted at once: no question is shown what comes from it.
    start: P = program.deepcopy()
    start.learned = program.learned.and_from(parts.train, parts.val)
    report = Report(chosen.optimizer_name, len(parts.train), len(parts.val), **chosen.costs, sources=sources)
    report.problems += parts.problems
    where = None if folder is None else Path(folder)
    with ExitStack() as stack:
        place = where or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keqa-compile-")))
        journal = stack.enter_context(Journal.open(place / "calls.journal", fingerprint))
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


def _read(options: Mapping[str, Any]) -> Options:
    try:
        return Options(**options)
    except TypeError as error:
        raise ConfigurationError(f"keqa.compile: {error}") from error


def _nested(module: Any) -> Program:
    """The one program that a module contains."""
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


def _listed(questions: Any) -> Any:
    """Questions that can be read more than once."""
    return list(questions) if isinstance(questions, Iterator) else questions


def _ready(program: Program, options: Options) -> Options:
    """Check what would otherwise fail in a late step, and open the embedder, before any call is made."""
    from keqa.programs.saving.folder import check_savable

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


def compilation_fingerprint(program: Program, metric: Correctness) -> dict[str, Any]:
    """What finished work depends on besides what is asked and of which program; no key or address is in it."""
    lms = lms_of(program)
    roles = {role: dspy.settings.lm if lms is None else getattr(lms, role) for role in ROLES}
    models, predictors = models_of(program), {name for name, _ in program.named_predictors()}
    return {
        "task": "compilation",
        "metric": metric_fingerprint(metric),
        "models": {role: lm_spec(lm) for role, lm in roles.items()}
        | {name: spec for name, spec in models.items() if name in predictors},
        "retriever": retriever_spec(getattr(getattr(program, "_retriever", None), "value", None)),
    }


def sources_of(program: Program, parts: Split, options: Options, metric: Correctness) -> dict[str, str]:
    """Digests of what a program is compiled from: the same compilation has the same ones."""
    how: dict[str, Any] = {
        one.name: getattr(options, one.name)
        for one in dataclasses.fields(options)
        if one.name not in ("embedder", "grid", "in_flight", "reflection_lm", "training")
    }
    if options.training:
        how["training"] = dict(options.training)
    own = isinstance(options.optimizer, Teleprompter)
    how["optimizer"] = optimizer_settings(options.optimizer) if own else options.optimizer
    how["grid"] = repr(options.grid)
    how["embedder"] = getattr(options.embedder, "name", options.embedder)
    how["reflection_lm"] = lm_spec(options.reflection_lm)
    return {
        "training questions": digest(list(map(_key, parts.train))),
        "validation questions": digest(list(map(_key, parts.val))),
        "language models, index and metric": digest(compilation_fingerprint(program, metric)),
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
