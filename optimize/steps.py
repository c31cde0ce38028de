"""The steps of a compilation, each on what the one before left, each scored on the validation split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from keqa.data.example import Example
from keqa.metrics.significance import paired_bootstrap
from keqa.metrics.utility import Correctness
from keqa.optimize.bootstrap import Trial, bootstrap
from keqa.optimize.dspy_optimizers import optimize
from keqa.optimize.journal import Journal
from keqa.optimize.options import Options
from keqa.optimize.points import Point
from keqa.optimize.reference import Progress as Labelling
from keqa.optimize.reference import build_reference, reference_fingerprint
from keqa.optimize.traces import Progress, digest, mean, run_traces
from keqa.optimize.tune import tune
from keqa.programs.keqa import KEQA
from keqa.programs.utility_reference import UtilityReference

__all__ = ["Steps"]


class Steps:
    """A compilation under way.

    Attributes:
        trials: Every candidate scored so far, the program as it was first.
        kept: That of the program as it is now.
        curve: What tuning saw.
        counts: Entries of the utility reference by label, where it is kept.
        problems: What could not be used, and why.
    """

    def __init__(
        self,
        program: KEQA,
        train: Sequence[Example],
        val: Sequence[Example],
        *,
        folder: Path,
        journal: Journal,
        calls: Journal,
        metric: Correctness,
        options: Options,
        progress: Progress,
    ) -> None:
        """Set up.

        Args:
            program: It stays as it is.
            train: Questions to learn from.
            val: Questions to choose by.
            folder: Where further journals go.
            journal: Where answers to questions are kept.
            calls: Where the calls of tuning are kept.
            metric: Correctness of an answer.
            options: How to compile.
            progress: See `keqa.optimize.traces.Progress`.
        """
        self.before, self.train, self.val = program, train, val
        self.folder, self.journal, self.calls = folder, journal, calls
        self.metric, self.options, self.progress = metric, options, progress
        self.trials: list[Trial] = []
        self.kept = Trial("", 0.0)
        self.curve: list[Point] = []
        self.counts: dict[str, int] = {}
        self.problems: list[str] = []

    def run(self, step_done: Callable[[], None]) -> KEQA:
        """Take all steps.

        Args:
            step_done: Called after each.

        Returns:
            The compiled program.
        """
        program = self._learned() if self.options.optimizer != "bootstrap" else self._bootstrapped()
        step_done()
        if self.options.reference and program.pick and program._retriever.value is not None:
            program = self._with_reference(program)
            step_done()
        if self.options.tuning:
            program = self._tuned(program)
            step_done()
        return program

    def _score(self, program: KEQA, name: str) -> Trial:
        traces = run_traces(
            program,
            self.val,
            journal=self.journal,
            metric=self.metric,
            in_flight=self.options.in_flight,
            step=f"scoring {name}",
            progress=self.progress,
        )
        self.trials.append(Trial(name, mean(traces), tuple(trace.score for trace in traces)))
        return self.trials[-1]

    def _bootstrapped(self) -> KEQA:
        options = self.options
        found = bootstrap(
            self.before,
            self.train,
            self.val,
            journal=self.journal,
            metric=self.metric,
            demos=options.demos,
            judge_demos=options.judge_demos,
            sets=options.sets,
            threshold=options.threshold,
            seed=options.seed,
            in_flight=options.in_flight,
            progress=self.progress,
        )
        self.trials += found.trials
        self.kept = max(found.trials, key=lambda trial: trial.score)
        if not any(found.found.values()):
            self.problems.append("no training question came out right, so there are no demonstrations")
        return found.program

    def _learned(self) -> KEQA:
        """What one of DSPy's optimizers makes of the program, where it is better on the validation questions."""
        options = self.options
        self.kept = self._score(self.before, "the program as it is")
        if options.optimizer == "none":
            return self.before
        candidate = optimize(
            options.optimizer,
            self.before,
            self.train,
            self.val,
            journal=self.journal,
            metric=self.metric,
            reflection_lm=options.reflection_lm,
            budget=options.budget,
            seed=options.seed,
            in_flight=options.in_flight,
            progress=self.progress,
        )
        trial = self._score(candidate, options.optimizer)
        if trial.score <= self.kept.score:
            self.problems.append(f"what {options.optimizer} found is not better on the validation questions: left out")
            return self.before
        self.kept = trial
        return candidate

    def _with_reference(self, program: KEQA) -> KEQA:
        """The program with a reference, unless it is worse with it beyond chance."""
        fingerprint = reference_fingerprint(program, correctness=self.metric)
        with Journal.open(self.folder / f"reference-{digest(fingerprint)}.jsonl", fingerprint) as journal:
            entries = build_reference(
                program,
                self.train,
                journal=journal,
                correctness=self.metric,
                in_flight=self.options.in_flight,
                progress=self._labelling,
            )
        told = [f"training question {root}: {'; '.join(some)}" for root, some in entries.problems.items()]
        self.problems += told
        if entries.left_out:
            self.problems.append(f"{entries.left_out} passages have no label, since a call failed")
        if not entries:
            self.problems.append("no passage made an answer better or worse, so there is no utility reference")
            return program
        candidate: KEQA = program.deepcopy()
        candidate.picking.reference = UtilityReference(self.options.embedder).fit(entries)
        trial = self._score(candidate, "the utility reference")
        if len(trial.scores) > 1 and paired_bootstrap(trial.scores, self.kept.scores).high < 0:
            self.problems.append("the utility reference made answers worse on the validation questions: left out")
            return program
        counts = entries.counts()
        self.kept, self.counts = trial, {"helpful": counts[True], "harmful": counts[False]}
        return candidate

    def _labelling(self, told: Labelling) -> None:
        self.progress("labelling passages", told.done, told.total)

    def _tuned(self, program: KEQA) -> KEQA:
        found = tune(
            program,
            self.val,
            journal=self.calls,
            metric=self.metric,
            cost_per_retrieval=self.options.cost_per_retrieval,
            grid=self.options.grid,
            in_flight=self.options.in_flight,
            progress=self.progress,
        )
        self.curve = found.curve
        self.kept = Trial("tuned settings", found.best.score, found.best.scores)
        self.trials.append(self.kept)
        return found.program
