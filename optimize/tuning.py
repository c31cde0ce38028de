"""Tuning the settings of a program, for F1 - λ · retrievals - μ · calls on the validation split.

The knobs that decide what is retrieved have no gradient and few values, so they are searched. For each temperature, and
then each top-p, all pairs of α and N_c are scored on the same draws; then top-k and whatever else is tried, each with
the best of the others. Where a boundary model was trained, it decides in the gate's place at each of its thresholds,
and what hangs on the gate is then tried once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from keqa.data.example import Answered
from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.optimize.asking import Asking, state_of, without_own
from keqa.optimize.search_space import Grid, Knobs, Point, Settings, own_threshold
from keqa.programs.boundary.model import BoundaryModel
from keqa.programs.calls.batch import Outcome, ask, in_parallel
from keqa.programs.calls.session import NoCopy, run_blocking, within
from keqa.programs.gates import IF_ANY, BoundaryGate, Gate, asks
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.shared_draws import SharedDraws
from keqa.programs.stages.listwise import Listwise


@dataclass(frozen=True)
class Tuned:
    """What tuning found."""

    program: KEQA
    curve: list[Point]
    best: Point
    own: Point
    bounded: Point | None = None


def tune(
    program: KEQA,
    valset: Sequence[Answered],
    asking: Asking,
    *,
    cost_per_retrieval: float = 0.0,
    cost_per_call: float = 0.0,
    grid: Grid | None = None,
    boundary: BoundaryModel | None = None,
) -> Tuned:
    """Choose the settings of a program."""
    for name, cost in (("cost_per_retrieval", cost_per_retrieval), ("cost_per_call", cost_per_call)):
        if not 0 <= cost < float("inf"):
            raise ConfigurationError(f"{name} must be a number from 0, not {cost}")
    costs = (cost_per_retrieval, cost_per_call)
    search = _Search(program, valset, asking, costs, Knobs.of(program, grid or Grid()), boundary)
    best = search.run()
    tried = any(point.settings.boundary for point in search.points.values())
    bounded = search.best(boundary=True) if tried else None
    points = list(search.points.values())
    return Tuned(set_to(program, best.settings, boundary), points, best, search.best(boundary=False), bounded)


def set_to(program: KEQA, settings: Settings, boundary: BoundaryModel | None = None) -> KEQA:
    """A copy of a program with other settings."""
    new: KEQA = program.deepcopy()
    _apply(new, settings, new.picking.listwise_judge())
    gate = _gate(program, settings, boundary)
    if gate is not program.examination.gate:
        new.gate = gate
    return new


def _gate(program: KEQA, settings: Settings, boundary: BoundaryModel | None) -> Gate:
    """The gate that settings mean."""
    own: Any = program.examination.gate
    if settings.boundary and boundary is not None:
        return BoundaryGate(boundary, threshold=Fraction(str(settings.threshold)))
    if settings.threshold is None or settings.threshold == own_threshold(own):
        return own  # type: ignore[no-any-return]
    gate: Gate = dataclasses.replace(own, threshold=Fraction(settings.threshold))
    return gate


def _apply(program: KEQA, settings: Settings, together: Listwise) -> None:
    """Everything but the gate."""
    program.picking.together = together if settings.listwise else None
    program.picking.prefer_reliable = settings.prefer_reliable
    examination = program.examination
    examination.tries, examination.temperature, examination.top_p = (
        settings.tries,
        settings.temperature,
        settings.top_p,
    )
    program.top_k = settings.top_k
    program.summarize_single, program.summarize_known = settings.summarize_single, settings.summarize_known
    program.on_nothing_helpful = settings.on_nothing_helpful


class _Search:
    """The points found so far."""

    def __init__(
        self,
        program: KEQA,
        valset: Sequence[Answered],
        asking: Asking,
        costs: tuple[float, float],
        knobs: Knobs,
        boundary: BoundaryModel | None,
    ) -> None:
        self.asking, self.knobs, self.costs, self.boundary = asking, knobs, costs, boundary
        own = program.examination.gate
        wanted = boundary is not None or asks(own) in ("probabilities", IF_ANY)
        largest = max(knobs.tries)
        self.draws = SharedDraws(probabilities=wanted, largest=largest, by_wave=True, store=asking.journal)
        self.twin = self.draws.sharing(program)
        self.together = self.twin.picking.listwise_judge()
        reference = program.picking.reference
        self.roots = {entry.root for entry in reference.entries} if isinstance(reference, UtilityReference) else set()
        self.program, self.states = program, {"": state_of(program)}
        self.valset = valset
        self.points: dict[Settings, Point] = {}
        pairs = len(self.knobs.thresholds) * len(self.knobs.tries)
        kinds = len(self.knobs.temperatures) + len(self.knobs.top_ps) - 1
        others = len(knobs.top_ks) - 1 + len(knobs.switches) + len(knobs.nothing_helpful) - 1
        self.total = pairs * kinds + others
        if boundary is not None:
            self.total += len(knobs.boundary_thresholds) + others

    def run(self) -> Point:
        """Score all points and return the best."""
        self._score(self.knobs.own)
        for temperature in self.knobs.temperatures:
            self._pairs(dataclasses.replace(self.knobs.own, temperature=temperature))
        for top_p in self.knobs.top_ps:
            self._pairs(dataclasses.replace(self.best().settings, top_p=top_p))
        self._others(boundary=False)
        if self.boundary is not None and self.knobs.boundary_thresholds:
            # The model was trained on draws like the program's own.
            drawn = {"temperature": self.knobs.own.temperature, "top_p": self.knobs.own.top_p}
            chosen = dataclasses.replace(self.best().settings, boundary=True, **drawn)  # type: ignore[arg-type]
            for threshold in self.knobs.boundary_thresholds:
                self._score(dataclasses.replace(chosen, threshold=threshold))
            self._others(boundary=True)
        return self.best()

    def _others(self, *, boundary: bool) -> None:
        """Try what has few values, each with the best of the others."""
        chosen = self.best(boundary).settings
        for top_k in self.knobs.top_ks:
            self._score(dataclasses.replace(chosen, top_k=top_k))
        for name in self.knobs.switches:
            chosen = self.best(boundary).settings
            other: Any = {name: not getattr(chosen, name)}
            self._score(dataclasses.replace(chosen, **other))
        chosen = self.best(boundary).settings
        for answers in self.knobs.nothing_helpful:
            self._score(dataclasses.replace(chosen, on_nothing_helpful=answers))

    def _pairs(self, settings: Settings) -> None:
        for tries in self.knobs.tries:
            for threshold in self.knobs.thresholds:
                self._score(dataclasses.replace(settings, tries=tries, threshold=threshold))

    def best(self, boundary: bool | None = None) -> Point:
        """The best of all points, or of those with or without the boundary model."""
        points = [one for one in self.points.values() if boundary in (None, one.settings.boundary)]
        return max(points, key=lambda point: (round(point.objective, 12), -point.retrievals))

    def _score(self, settings: Settings) -> None:
        if settings in self.points:
            return
        program = self.twin
        _apply(program, settings, self.together)
        program.examination._gate = NoCopy(_gate(self.program, settings, self.boundary))
        scores, retrievals, calls = [0.0] * len(self.valset), 0, 0
        watch = self.asking.failures.watch("tuning", len(self.valset))
        for outcome in in_parallel(self._ask, watch.until(enumerate(self.valset)), self.asking.in_flight):
            watch.add(outcome.record, outcome.error)
            if outcome.record is not None:
                retrievals += outcome.record.cost.retrievals
                calls += outcome.record.cost.samples
            scores[outcome.position] = self.asking.score(outcome.item, outcome.record)
        watch.refuse()
        count = len(self.valset)
        score, searches, replies = sum(scores) / count, retrievals / count, calls / count
        objective = score - self.costs[0] * searches - self.costs[1] * replies
        self.points[settings] = Point(settings, score, searches, objective, tuple(scores), replies)
        self.asking.progress("tuning", len(self.points), max(self.total, len(self.points)))

    def _ask(self, numbered: tuple[int, Answered]) -> Outcome:
        position, example = numbered
        program = without_own(self.twin, example)
        state = self._state("" if program is self.twin else example.id, example)
        root = example.id if example.id in self.roots else ""

        def answered(**asked: Any) -> Any:
            checked = Question.check(max_chars=program.max_question_chars, **asked)
            with within(caller=partial(self.draws.predict, shown=f"{state} {root}")):
                return run_blocking(lambda: program.run(checked, blocking=True))

        return ask(answered, position, example)

    def _state(self, root: str, example: Answered) -> str:
        """What the program is without the demonstrations that come from a question."""
        if root not in self.states:
            self.states[root] = state_of(without_own(self.program, example))
        return self.states[root]
