"""Tuning the settings of a program, for F1 - λ · retrievals - μ · calls on the validation split.

The knobs that decide what is retrieved have no gradient and few values, so they are searched. For each temperature, and
then each top-p, all pairs of α and N_c are scored on the same draws; then top-k and whatever else is tried, each with
the best of the others. Where a boundary model was trained, it decides in the gate's place at each of its thresholds,
and what hangs on the gate is then tried once more.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from keqa.data.example import Answered
from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.optimize.asking import Asking, state_of, without_own
from keqa.optimize.search_space import BOUNDARY, Point, own_choice, own_threshold, values_to_try
from keqa.programs.boundary.model import BoundaryModel
from keqa.programs.calls.batch import Outcome, ask, in_parallel
from keqa.programs.calls.session import run_blocking, within
from keqa.programs.gates import IF_ANY, BoundaryGate, asks
from keqa.programs.keqa import KEQA
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.shared_draws import SharedDraws

_DRAWING = ("threshold", "tries", "temperature", "top_p", BOUNDARY)
"""What is not tried by itself: all pairs of the first two are, with each of the others."""


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
    grid: Mapping[str, Sequence[Any]] | None = None,
    boundary: BoundaryModel | None = None,
) -> Tuned:
    """Choose the settings of a program."""
    for name, cost in (("cost_per_retrieval", cost_per_retrieval), ("cost_per_call", cost_per_call)):
        if not 0 <= cost < float("inf"):
            raise ConfigurationError(f"{name} must be a number from 0, not {cost}")
    costs = (cost_per_retrieval, cost_per_call)
    search = _Search(program, valset, asking, costs, grid or {}, boundary)
    best = search.run()
    tried = any(point.settings["boundary"] for point in search.points.values())
    bounded = search.best(boundary=True) if tried else None
    points = list(search.points.values())
    return Tuned(set_to(program, best.settings, boundary), points, best, search.best(boundary=False), bounded)


def set_to(program: KEQA, choice: Mapping[str, Any], boundary: BoundaryModel | None = None) -> KEQA:
    """A copy of a program with other settings."""
    new: KEQA = program.deepcopy()
    new.change(**_changes(program, choice, boundary))
    return new


def _changes(program: KEQA, choice: Mapping[str, Any], boundary: BoundaryModel | None) -> dict[str, Any]:
    """The settings that a choice means, with the gate that decides."""
    gate: Any = program.gate
    threshold = choice["threshold"]
    if choice["boundary"] and boundary is not None:
        gate = BoundaryGate(boundary, threshold=Fraction(threshold))
    elif threshold not in (None, own_threshold(gate)):
        gate = dataclasses.replace(gate, threshold=Fraction(threshold))
    return {**{name: value for name, value in choice.items() if name not in ("threshold", "boundary")}, "gate": gate}


class _Search:
    """The points found so far."""

    def __init__(
        self,
        program: KEQA,
        valset: Sequence[Answered],
        asking: Asking,
        costs: tuple[float, float],
        grid: Mapping[str, Sequence[Any]],
        boundary: BoundaryModel | None,
    ) -> None:
        self.asking, self.costs, self.boundary = asking, costs, boundary
        self.own, self.values = own_choice(program), values_to_try(program, grid)
        wanted = asks(program.gate)
        likely: Any = wanted == "probabilities"
        if not likely and (boundary is not None or wanted == IF_ANY):
            likely = IF_ANY
        self.draws = SharedDraws(probabilities=likely, largest=max(self.values["tries"]), store=asking.journal)
        self.twin = self.draws.sharing(program)
        self.together = self.twin.picking.listwise_judge()
        reference = program.reference
        self.roots = {entry.root for entry in reference.entries} if isinstance(reference, UtilityReference) else set()
        self.program, self.states = program, {"": state_of(program)}
        self.valset = valset
        self.points: dict[tuple[Any, ...], Point] = {}
        count = {name: len(values) for name, values in self.values.items()}
        others = sum(count[name] - 1 for name in self.values if name not in _DRAWING)
        self.total = count["threshold"] * count["tries"] * (count["temperature"] + count["top_p"] - 1) + others
        if boundary is not None:
            self.total += count[BOUNDARY] + others

    def run(self) -> Point:
        """Score all points and return the best."""
        self._score(self.own)
        for temperature in self.values["temperature"]:
            self._pairs({**self.own, "temperature": temperature})
        for top_p in self.values["top_p"]:
            self._pairs({**self.best().settings, "top_p": top_p})
        self._others(boundary=False)
        if self.boundary is not None and self.values[BOUNDARY]:
            # The model was trained on draws like the program's own.
            drawn = {name: self.own[name] for name in ("temperature", "top_p")}
            chosen = {**self.best().settings, "boundary": True, **drawn}
            for threshold in self.values[BOUNDARY]:
                self._score({**chosen, "threshold": threshold})
            self._others(boundary=True)
        return self.best()

    def _others(self, *, boundary: bool) -> None:
        """Try what has few values, each with the best of the others."""
        for name, values in self.values.items():
            chosen = self.best(boundary).settings
            for value in values if name not in _DRAWING else ():
                self._score({**chosen, name: value})

    def _pairs(self, choice: Mapping[str, Any]) -> None:
        for tries in self.values["tries"]:
            for threshold in self.values["threshold"]:
                self._score({**choice, "tries": tries, "threshold": threshold})

    def best(self, boundary: bool | None = None) -> Point:
        """The best of all points, or of those with or without the boundary model."""
        points = [one for one in self.points.values() if boundary in (None, one.settings["boundary"])]
        return max(points, key=lambda point: (round(point.objective, 12), -point.retrievals))

    def _score(self, choice: Mapping[str, Any]) -> None:
        key = tuple(choice[name] for name in self.own)
        if key in self.points:
            return
        self.twin.change(**_changes(self.program, choice, self.boundary))
        if choice["listwise"]:
            self.twin.picking.together = self.together
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
        self.points[key] = Point(choice, score, searches, objective, tuple(scores), replies)
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
