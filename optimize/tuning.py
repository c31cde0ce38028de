"""Tuning α, N_c, top-k and how tries are drawn, for F1 - λ · retrievals on the validation split.

The knobs that decide what is retrieved have no gradient and few values, so they are searched. For each temperature, and
then each top-p, all pairs of α and N_c are scored on the same draws; then top-k, with the best of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keqa.data.example import Answered
from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.metrics.utility import Correctness
from keqa.optimize.demos.provenance import DemoProvenance
from keqa.optimize.failures import Failures
from keqa.optimize.search_space import Grid, Point, Settings
from keqa.optimize.search_values import Knobs
from keqa.optimize.shared_session import SharedSession
from keqa.optimize.tracing import Progress, asked_as, silent
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.gates import asks
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference, leaving_out
from keqa.programs.runtime.batch import answer_many
from keqa.programs.runtime.concurrency import NoCopy, run_blocking
from keqa.programs.runtime.shared_samples import SharedDraws
from keqa.storage.journal import Journal

__all__ = ["Tuned", "set_to", "tune"]


@dataclass(frozen=True)
class Tuned:
    """What tuning found.

    Attributes:
        program: A copy with the best settings.
        curve: All points, the program's own settings first, in the order in which they were scored.
        best: The point chosen: the highest objective; among equals the fewest retrievals, then the earliest.
    """

    program: KEQA
    curve: list[Point]
    best: Point


def tune(
    program: KEQA,
    valset: Sequence[Answered],
    *,
    journal: Journal,
    metric: Correctness,
    cost_per_retrieval: float = 0.0,
    grid: Grid | None = None,
    in_flight: int = 8,
    progress: Progress = silent,
    failures: Failures | None = None,
    origins: DemoProvenance | None = None,
) -> Tuned:
    """Choose the settings of a program.

    Args:
        program: It stays as it is.
        valset: Questions to choose by.
        journal: Keeps every call, so that a run that was killed makes none again.
        metric: Correctness of an answer.
        cost_per_retrieval: λ, what a search costs in the metric's units.
        grid: Values to try. Knobs that the program does not use are left alone.
        in_flight: Questions in work at once.
        progress: See `keqa.optimize.tracing.Progress`.
        failures: Where failed questions are counted.
        origins: Demonstrations that come from a question are not shown while that question is asked.

    Raises:
        ConfigurationError: A value that cannot work; or as in asking a question.
        TooManyFailuresError: Most questions failed for a reason that may pass. The calls that were made are kept.
    """
    if not 0 <= cost_per_retrieval < float("inf"):
        raise ConfigurationError(f"cost_per_retrieval must be a number from 0, not {cost_per_retrieval}")
    knobs = Knobs.of(program, grid or Grid())
    counted, provenance = failures or Failures(), origins or DemoProvenance()
    search = _Search(
        program, valset, journal, metric, cost_per_retrieval, in_flight, progress, knobs, counted, provenance
    )
    best = search.run()
    return Tuned(set_to(program, best.settings), list(search.points.values()), best)


def set_to(program: KEQA, settings: Settings) -> KEQA:
    """A copy of a program with other settings."""
    new: KEQA = program.deepcopy()
    _apply(new, settings)
    return new


def _apply(program: KEQA, settings: Settings) -> None:
    examination = program.examination
    examination.tries, examination.temperature, examination.top_p = (
        settings.tries,
        settings.temperature,
        settings.top_p,
    )
    program.top_k = settings.top_k
    if settings.threshold is not None:
        gate: Any = examination.gate
        examination._gate = NoCopy(dataclasses.replace(gate, threshold=Fraction(settings.threshold)))


class _Search:
    """The points found so far."""

    def __init__(
        self,
        program: KEQA,
        valset: Sequence[Answered],
        journal: Journal,
        metric: Correctness,
        cost: float,
        in_flight: int,
        progress: Progress,
        knobs: Knobs,
        failures: Failures,
        origins: DemoProvenance,
    ) -> None:
        examination = program.examination
        self.knobs = knobs
        wanted = asks(examination.gate) == "probabilities"
        draws = SharedDraws(probabilities=wanted, store=journal, largest=max(self.knobs.tries))
        self.twin = draws.sharing(program)
        self.known = {asked_as(example): example.id for example in valset}
        reference = program.picking.reference
        self.roots = {entry.root for entry in reference.entries} if isinstance(reference, UtilityReference) else set()
        self.program, self.states = program, {"": program_fingerprint(program)}
        self.failures, self.origins = failures, origins
        self.valset, self.journal, self.metric, self.cost = valset, journal, metric, cost
        self.in_flight, self.progress = in_flight, progress
        self.points: dict[Settings, Point] = {}
        pairs = len(self.knobs.thresholds) * len(self.knobs.tries)
        kinds = len(self.knobs.temperatures) + len(self.knobs.top_ps) - 1
        self.total = pairs * kinds + len(self.knobs.top_ks) - 1

    def run(self) -> Point:
        self._score(self.knobs.own)
        for temperature in self.knobs.temperatures:
            self._pairs(dataclasses.replace(self.knobs.own, temperature=temperature))
        for top_p in self.knobs.top_ps:
            self._pairs(dataclasses.replace(self._best().settings, top_p=top_p))
        chosen = self._best().settings
        for top_k in self.knobs.top_ks:
            self._score(dataclasses.replace(chosen, top_k=top_k))
        return self._best()

    def _pairs(self, settings: Settings) -> None:
        for tries in self.knobs.tries:
            for threshold in self.knobs.thresholds:
                self._score(dataclasses.replace(settings, tries=tries, threshold=threshold))

    def _best(self) -> Point:
        return max(self.points.values(), key=lambda point: (round(point.objective, 12), -point.retrievals))

    def _score(self, settings: Settings) -> None:
        if settings in self.points:
            return
        program = self.twin
        _apply(program, settings)
        scores, retrievals = [0.0] * len(self.valset), 0
        watch = self.failures.watch("tuning", len(self.valset))
        for outcome in answer_many(self._ask, self.valset, self.in_flight):
            example, record = self.valset[outcome.position], outcome.record
            watch.add(record, outcome.error)
            if record is not None:
                retrievals += record.cost.retrievals
            if outcome.answer:
                scores[outcome.position] = float(
                    self.metric(outcome.answer, example.answers, example.answer_type, example.choices)
                )
        count = len(self.valset)
        score, searches = sum(scores) / count, retrievals / count
        self.points[settings] = Point(settings, score, searches, score - self.cost * searches, tuple(scores))
        self.progress("tuning", len(self.points), max(self.total, len(self.points)))

    def _ask(self, question: str, answer_type: str, choices: Sequence[str]) -> Any:
        root = self.known[question, tuple(choices)]
        program = self.origins.without(self.twin, root)
        asked = Question.check(question, answer_type, choices, program.max_question_chars)
        state = self._state("" if program is self.twin else root)
        session = SharedSession(program.bound, self.journal, state, root if root in self.roots else "")
        with leaving_out(root):
            return run_blocking(lambda: program.run(session, asked))

    def _state(self, root: str) -> str:
        """What the program is without the demonstrations that come from a question."""
        if root not in self.states:
            self.states[root] = program_fingerprint(self.origins.without(self.program, root))
        return self.states[root]
