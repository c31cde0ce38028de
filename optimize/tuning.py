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
from keqa.optimize.asking import Asking
from keqa.optimize.search_space import Grid, Knobs, Point, Settings
from keqa.optimize.shared_session import SharedSession
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.gates import asks
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference, leaving_out
from keqa.programs.runtime.batch import Outcome, ask, in_parallel
from keqa.programs.runtime.concurrency import NoCopy, run_blocking
from keqa.programs.runtime.shared_samples import SharedDraws


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
    asking: Asking,
    *,
    cost_per_retrieval: float = 0.0,
    grid: Grid | None = None,
) -> Tuned:
    """Choose the settings of a program.

    Args:
        program: It stays as it is.
        valset: Questions to choose by.
        asking: How questions are asked. Its journal keeps every call, so that a run that was killed makes none again.
        cost_per_retrieval: λ, what a search costs in the metric's units.
        grid: Values to try. Knobs that the program does not use are left alone.

    Raises:
        ConfigurationError: A value that cannot work; or as in asking a question.
        TooManyFailuresError: Most questions failed for a reason that may pass. The calls that were made are kept.
    """
    if not 0 <= cost_per_retrieval < float("inf"):
        raise ConfigurationError(f"cost_per_retrieval must be a number from 0, not {cost_per_retrieval}")
    search = _Search(program, valset, asking, cost_per_retrieval, Knobs.of(program, grid or Grid()))
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
        asking: Asking,
        cost: float,
        knobs: Knobs,
    ) -> None:
        self.asking, self.knobs, self.cost = asking, knobs, cost
        wanted = asks(program.examination.gate) == "probabilities"
        draws = SharedDraws(probabilities=wanted, store=asking.journal, largest=max(knobs.tries))
        self.twin = draws.sharing(program)
        reference = program.picking.reference
        self.roots = {entry.root for entry in reference.entries} if isinstance(reference, UtilityReference) else set()
        self.program, self.states = program, {"": program_fingerprint(program)}
        self.valset = valset
        self.points: dict[Settings, Point] = {}
        pairs = len(self.knobs.thresholds) * len(self.knobs.tries)
        kinds = len(self.knobs.temperatures) + len(self.knobs.top_ps) - 1
        self.total = pairs * kinds + len(self.knobs.top_ks) - 1

    def run(self) -> Point:
        """Score all points and return the best."""
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
        watch = self.asking.failures.watch("tuning", len(self.valset))
        for outcome in in_parallel(self._ask, watch.until(enumerate(self.valset)), self.asking.in_flight):
            watch.add(outcome.record, outcome.error)
            if outcome.record is not None:
                retrievals += outcome.record.cost.retrievals
            scores[outcome.position] = self.asking.score(outcome.item, outcome.record)
        watch.refuse()
        count = len(self.valset)
        score, searches = sum(scores) / count, retrievals / count
        self.points[settings] = Point(settings, score, searches, score - self.cost * searches, tuple(scores))
        self.asking.progress("tuning", len(self.points), max(self.total, len(self.points)))

    def _ask(self, numbered: tuple[int, Answered]) -> Outcome:
        position, example = numbered
        program = self.asking.origins.without(self.twin, example.id)
        state = self._state("" if program is self.twin else example.id)
        root = example.id if example.id in self.roots else ""

        def answered(**asked: Any) -> Any:
            checked = Question.check(max_chars=program.max_question_chars, **asked)
            session = SharedSession(program.bound, self.asking.journal, state, root)
            return run_blocking(lambda: program.run(session, checked))

        with leaving_out(example.id):
            return ask(answered, position, example)

    def _state(self, root: str) -> str:
        """What the program is without the demonstrations that come from a question."""
        if root not in self.states:
            self.states[root] = program_fingerprint(self.asking.origins.without(self.program, root))
        return self.states[root]
