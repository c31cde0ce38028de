"""Candidate programs, scored on the validation split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from keqa.data.example import Answered
from keqa.metrics.utility import Correctness
from keqa.optimize.demos.provenance import DemoProvenance
from keqa.optimize.failures import Failures
from keqa.optimize.tracing import Progress, run_traces, silent
from keqa.programs.program import Program
from keqa.storage.journal import Journal

__all__ = ["Trial", "Validation"]


@dataclass(frozen=True)
class Trial:
    """One candidate program and its score on the validation split.

    Attributes:
        name: What it is.
        score: Mean score.
        scores: One score a question.
    """

    name: str
    score: float
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class Validation:
    """The questions to choose by.

    Attributes:
        examples: The questions.
        journal: Where answers are kept.
        metric: Correctness of an answer.
        in_flight: Questions in work at once.
        progress: See `keqa.optimize.tracing.Progress`.
        failures: Where failed questions are counted.
        origins: Where demonstrations come from; they are not shown to the questions that they come from.
    """

    examples: Sequence[Answered]
    journal: Journal
    metric: Correctness
    in_flight: int = 8
    progress: Progress = silent
    failures: Failures = field(default_factory=Failures)
    origins: DemoProvenance = field(default_factory=DemoProvenance)

    def score(self, program: Program, name: str, *, steps: bool = False) -> Trial:
        """Score a candidate.

        Args:
            program: The candidate.
            name: What it is.
            steps: See `keqa.optimize.tracing.run_traces`.

        Raises:
            ConfigurationError: As there.
            TooManyFailuresError: As there.
        """
        traces = run_traces(
            program,
            self.examples,
            journal=self.journal,
            metric=self.metric,
            in_flight=self.in_flight,
            step=f"scoring {name}",
            progress=self.progress,
            failures=self.failures,
            origins=self.origins,
            steps=steps,
        )
        scores = tuple(trace.score for trace in traces)
        return Trial(name, sum(scores) / len(scores), scores)
