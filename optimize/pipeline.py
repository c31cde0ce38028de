"""The steps of a compilation, each on what the one before left, each scored on the validation split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from keqa.data.example import Example
from keqa.errors import ConfigurationError, InputError
from keqa.metrics.significance import paired_bootstrap
from keqa.optimize.asking import Asking, Trial
from keqa.optimize.bootstrap import bootstrap
from keqa.optimize.boundary.train import Trained, learn, may_learn
from keqa.optimize.dspy_optimizers import ask_once, optimize
from keqa.optimize.failures import TooManyFailuresError
from keqa.optimize.finetuning import check_finetunable, finetune
from keqa.optimize.journal_keys import compilation_fingerprint
from keqa.optimize.options import UNREFLECTING, Options
from keqa.optimize.reference import Labeller, build_reference
from keqa.optimize.report import Report
from keqa.optimize.search_space import has_tunable_threshold
from keqa.optimize.tuning import tune
from keqa.programs.fingerprint import digest
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.reference.embedding import HASHING
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.storage.journal import Journal

_NAMED = 5


def builds_reference(program: Program, options: Options) -> TypeGuard[KEQA]:
    """Whether a compilation of a program builds a utility reference: where it is wanted and would be used."""
    if not isinstance(program, KEQA):
        return False
    # A fine-tuned language model needs no demonstrations, those of the utility judge included.
    if options.optimizer == "finetune":
        return False
    return options.reference and program.pick and program._retriever.value is not None


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


@dataclass(kw_only=True)
class Steps:
    """A compilation under way, which writes into its report; fine-tuned language models go where `adapters` says."""

    before: Program
    train: Sequence[Example]
    val: Sequence[Example]
    asking: Asking
    calls: Journal
    options: Options
    report: Report
    opened: Callable[[str, dict[str, Any]], Journal]
    adapters: Path | None
    kept: Trial = field(default_factory=lambda: Trial("", 0.0))
    lm_folders: Mapping[str, Path] = field(default_factory=dict)

    def run(self, step_done: Callable[[], None]) -> Program:
        """Take all steps; a program other than KEQA has no reference and no settings to tune."""
        program = self._learned() if self.options.optimizer != "bootstrap" else self._bootstrapped()
        step_done()
        if builds_reference(program, self.options):
            program = self._with_reference(program)
            step_done()
        if self.options.tuning and isinstance(program, KEQA):
            boundary = self._boundary(program)
            step_done()
            program = self._tuned(program, boundary)
            step_done()
        return program

    def _score(self, program: Program, name: str, *, steps: bool = False) -> Trial:
        self.report.trials.append(self.asking.trial(program, name, self.val, steps=steps))
        return self.report.trials[-1]

    def _keep(self, trial: Trial) -> None:
        self.kept = trial
        self.report.chosen.append(trial.name)

    def _bootstrapped(self) -> Program:
        found = bootstrap(self.before, self.train, self.val, self.asking, self.options)
        self.report.trials += found.trials
        self._keep(max(found.trials, key=lambda trial: trial.score))
        if not any(found.found.values()):
            self.report.problems.append("no training question came out right, so there are no demonstrations")
        return found.program

    def _learned(self) -> Program:
        """What one of DSPy's optimizers makes of the program, where it is better on the validation questions."""
        options = self.options
        if options.optimizer == "finetune":
            check_finetunable(self.before)
        if options.reflection_lm is not None:
            ask_once(options.reflection_lm)
        own = self._score(self.before, "the program as it is", steps=options.optimizer not in UNREFLECTING)
        if options.optimizer == "none":
            self._keep(own)
            return self.before
        if options.optimizer == "finetune":
            return self._finetuned(own)
        how = {"reflection_lm": options.reflection_lm, "budget": options.budget, "seed": options.seed}
        candidate = optimize(self.before, self.train, self.val, self.asking, options.optimizer, **how)
        trial = self._score(candidate, options.optimizer_name)
        if trial.score <= own.score:
            self._keep(own)
            self.report.problems.append(
                f"what {options.optimizer_name} found is not better on the validation questions: left out"
            )
            return self.before
        self._keep(trial)
        return candidate

    def _finetuned(self, own: Trial) -> Program:
        """The program on fine-tuned language models, unless it is worse on the validation questions beyond chance."""
        found = finetune(self.before, self.train, self.asking, self.options, self.adapters)
        asking, calls = self.asking, self.calls
        # Answers of the former language models are none of theirs.
        fingerprint = compilation_fingerprint(found.program, asking.metric)
        questions, self.calls = (
            self.opened(f"{name}-{digest(fingerprint)}", fingerprint) for name in ("questions", "calls")
        )
        self.asking = replace(asking, journal=questions)
        trial = self._score(found.program, "finetune")
        if len(trial.scores) > 1 and paired_bootstrap(trial.scores, own.scores).high < 0:
            self.asking, self.calls = asking, calls
            self._keep(own)
            self.report.problems.append("the fine-tuned language model is worse on the validation questions: left out")
            return self.before
        self._keep(trial)
        self.report.finetuned_on, self.lm_folders = found.conversations, found.folders
        return found.program

    def _with_reference(self, program: KEQA) -> KEQA:
        """The program with a reference, unless it is worse with it beyond chance."""
        labeller = Labeller(program, correctness=self.asking.metric)
        fingerprint = labeller.fingerprint()
        journal = self.opened(f"reference-{digest(fingerprint)}", fingerprint)
        entries = build_reference(labeller, self.train, replace(self.asking, journal=journal))
        problems = [f"training question {root}: {'; '.join(some)}" for root, some in entries.problems.items()]
        self.report.problems += problems
        self.report.problems += [
            f"{sum(of.values())} passages have no label, since a call failed with {cause}: of training questions "
            f"{', '.join([*of][:_NAMED])}{f' and {len(of) - _NAMED} more' if len(of) > _NAMED else ''}"
            for cause, of in entries.lost.items()
        ]
        if not entries:
            self.report.problems.append("no passage made an answer better or worse, so there is no utility reference")
            return program
        candidate: KEQA = program.deepcopy()
        candidate.picking.reference = empty_reference(program, self.options).fit(entries)
        trial = self._score(candidate, "the utility reference")
        if len(trial.scores) > 1 and paired_bootstrap(trial.scores, self.kept.scores).high < 0:
            self.report.problems.append(
                "the utility reference made answers worse on the validation questions: left out"
            )
            return program
        counts = entries.counts()
        self._keep(trial)
        self.report.reference = {"helpful": counts[True], "harmful": counts[False]}
        return candidate

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
                store=self.calls,
                in_flight=self.options.in_flight,
                progress=lambda done, total: self.asking.progress("collecting", done, total),
            )
        except TooManyFailuresError:
            raise
        except InputError as error:
            self.report.problems.append(f"no boundary model: {error}")
            return None

    def _tuned(self, program: KEQA, boundary: Trained[Any] | None) -> KEQA:
        found = tune(
            program,
            self.val,
            replace(self.asking, journal=self.calls),
            cost_per_retrieval=self.options.retrieval_cost,
            cost_per_call=self.options.call_cost,
            boundary=None if boundary is None else boundary.model,
            grid=self.options.grid,
        )
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
                    self._keep(self.report.trials[-1])
        if boundary is not None:
            self.report.boundary = {
                "reads": boundary.model.reads,
                "tries": self.options.boundary_tries,
                "held_out": boundary.held_out.as_json(),
                "kept": found.best is found.bounded,
            }
        return found.program
