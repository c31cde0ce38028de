"""The steps of a compilation, each on what the one before left, each scored on the validation split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from keqa.data.example import Example
from keqa.errors import ConfigurationError, InputError, TooManyFailuresError
from keqa.metrics.significance import paired_bootstrap
from keqa.optimize.asking import Asking, Trial
from keqa.optimize.bootstrap import AS_IT_IS, bootstrap
from keqa.optimize.boundary.train import Trained, learn, may_learn
from keqa.optimize.dspy_optimizers import ask_once, optimize
from keqa.optimize.finetuning import check_finetunable, finetune
from keqa.optimize.options import Options
from keqa.optimize.reference import Labeller, build_reference
from keqa.optimize.report import Report
from keqa.optimize.tuning import has_tunable_threshold, tune
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.reference.embedding import HASHING
from keqa.programs.reference.utility_reference import UtilityReference

P = TypeVar("P", bound=Program)

_NAMED = 5


def builds_reference(program: Program, options: Options) -> TypeGuard[KEQA]:
    """Whether a compilation of a program builds a utility reference: where it is wanted and would be used."""
    # A fine-tuned language model needs no demonstrations, those of the utility judge included.
    wanted = options.reference and options.optimizer != "finetune"
    return isinstance(program, KEQA) and wanted and program.pick and program._retriever.value is not None


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


@dataclass
class Steps:
    """A compilation under way, which writes into its report; fine-tuned language models go where `adapters` says."""

    train: Sequence[Example]
    val: Sequence[Example]
    asking: Asking
    options: Options
    report: Report
    adapters: Path | None
    lm_folders: Mapping[str, Path] = field(default_factory=dict)

    def run(self, program: Program) -> Program:
        """Take all steps; a program other than KEQA has no reference and no settings to tune."""
        program = self._bootstrapped(program) if self.options.optimizer == "bootstrap" else self._learned(program)
        if builds_reference(program, self.options):
            program = self._with_reference(program)
        if self.options.tuning and isinstance(program, KEQA):
            program = self._tuned(program, self._boundary(program))
        return program

    def _score(self, program: Program, name: str) -> Trial:
        self.report.trials.append(self.asking.trial(program, name, self.val))
        return self.report.trials[-1]

    def _kept(
        self, before: P, scores: Sequence[float], candidate: P, trial: Trial, why_not: str, *, only_better: bool = False
    ) -> P:
        """A candidate, where it is better; or, unless it has to be, where it is not worse beyond chance."""
        if only_better:
            kept = trial.score > sum(scores) / len(scores)
        else:
            kept = len(trial.scores) < 2 or paired_bootstrap(trial.scores, scores).high >= 0
        if not kept:
            self.report.problems.append(why_not)
            return before
        self.report.chosen.append(trial.name)
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
        own = self._score(program, AS_IT_IS)
        kept = program
        if name == "finetune":
            found = finetune(program, self.train, self.asking, options, self.adapters)
            why_not = "the fine-tuned language model is worse on the validation questions: left out"
            kept = self._kept(program, own.scores, found.program, self._score(found.program, name), why_not)
            if kept is found.program:
                self.report.finetuned_on, self.lm_folders = found.conversations, found.folders
        elif name != "none":
            how = {"reflection_lm": options.reflection_lm, "budget": options.budget, "seed": options.seed}
            candidate = optimize(program, self.train, self.val, self.asking, options.optimizer, **how)
            why_not = f"what {name} found is not better on the validation questions: left out"
            trial = self._score(candidate, name)
            kept = self._kept(program, own.scores, candidate, trial, why_not, only_better=True)
        if kept is program:
            self.report.chosen.append(own.name)
        return kept

    def _with_reference(self, program: KEQA) -> KEQA:
        """The program with a reference, unless it is worse with it beyond chance."""
        problems = self.report.problems
        entries = build_reference(Labeller(program, correctness=self.asking.metric), self.train, self.asking)
        problems += [f"training question {root}: {'; '.join(some)}" for root, some in entries.problems.items()]
        for cause, of in entries.lost.items():
            more = f" and {len(of) - _NAMED} more" if len(of) > _NAMED else ""
            problems.append(
                f"{sum(of.values())} passages have no label, since a call failed with {cause}: of training questions "
                f"{', '.join([*of][:_NAMED])}{more}"
            )
        if not entries:
            problems.append("no passage made an answer better or worse, so there is no utility reference")
            return program
        candidate: KEQA = program.deepcopy()
        candidate.picking.reference = empty_reference(program, self.options).fit(entries)
        trial = self._score(candidate, "the utility reference")
        why_not = "the utility reference made answers worse on the validation questions: left out"
        kept = self._kept(program, self.report.after, candidate, trial, why_not)
        if kept is candidate:
            counts = entries.counts()
            self.report.reference = {"helpful": counts[True], "harmful": counts[False]}
        return kept

    def _boundary(self, program: KEQA) -> Trained[Any] | None:
        """A boundary model from the training questions, where there are enough and a gate to replace."""
        if not self.options.boundary or not may_learn(program):
            return None
        try:
            return learn(
                program,
                self.train,
                self.val,
                tries=self.options.boundary_tries,
                store=self.asking.journal,
                in_flight=self.options.in_flight,
                progress=lambda done, total: self.asking.progress("collecting", done, total),
            )
        except TooManyFailuresError:
            raise
        except InputError as error:
            self.report.problems.append(f"no boundary model: {error}")
            return None

    def _tuned(self, program: KEQA, boundary: Trained[Any] | None) -> KEQA:
        model = None if boundary is None else boundary.model
        found = tune(program, self.val, self.asking, grid=self.options.grid, boundary=model, **self.options.costs)
        gate = program.examination.gate
        if program.examine and gate.threshold is not None and not has_tunable_threshold(gate):
            self.report.problems.append(
                f"the threshold of the gate {gate.name!r} was left alone: only a dataclass with that field can be "
                "made again with another"
            )
        self.report.curve = found.curve
        for name, point in (("tuned settings", found.own), ("the boundary model", found.bounded)):
            if point is not None:
                self.report.trials.append(Trial(name, point.score, point.scores))
                if point is found.best:
                    self.report.chosen.append(name)
        if boundary is not None:
            self.report.boundary = {
                "reads": boundary.model.reads,
                "tries": self.options.boundary_tries,
                "held_out": boundary.held_out.as_json(),
                "kept": found.best is found.bounded,
            }
        return found.program
