"""Tuning α, N_c, top-k and how tries are drawn, for F1 - λ · retrievals on the validation split.

The knobs that decide what is retrieved have no gradient and few values, so they are searched. For each temperature, and
then each top-p, all pairs of α and N_c are scored on the same draws; then top-k, with the best of the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from keqa.data.example import Answered
from keqa.errors import ConfigurationError
from keqa.metrics.utility import Correctness
from keqa.optimize.journal import Journal
from keqa.optimize.points import Grid, Point, Settings
from keqa.optimize.shared import SharedSession
from keqa.optimize.traces import Progress, identity, silent
from keqa.programs.batch import answer_many
from keqa.programs.calls import Shared, run_blocking
from keqa.programs.draws import SharedDraws
from keqa.programs.gates import as_fraction, asks
from keqa.programs.inputs import Asked
from keqa.programs.keqa import KEQA

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
        progress: See `keqa.optimize.traces.Progress`.

    Raises:
        ConfigurationError: A value that cannot work; or as in asking a question.
    """
    if not 0 <= cost_per_retrieval < float("inf"):
        raise ConfigurationError(f"cost_per_retrieval must be a number from 0, not {cost_per_retrieval}")
    search = _Search(program, valset, journal, metric, cost_per_retrieval, in_flight, progress, grid or Grid())
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
        examination._gate = Shared(dataclasses.replace(gate, threshold=Fraction(settings.threshold)))


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
        grid: Grid,
    ) -> None:
        examination = program.examination
        threshold = examination.gate.threshold
        self.own = Settings(
            None if threshold is None else _written(threshold),
            examination.tries,
            program.top_k,
            examination.temperature,
            examination.top_p,
        )
        examined = program.examine and threshold is not None
        retrieves = program._retriever.value is not None
        self.thresholds = _values(self.own.threshold, map(_exact, grid.thresholds if examined else ()))
        self.tries = _values(self.own.tries, grid.tries if examined else ())
        self.top_ks = _values(self.own.top_k, grid.top_ks if retrieves else ())
        self.temperatures = _values(self.own.temperature, grid.temperatures if examined else ())
        self.top_ps = _values(self.own.top_p, grid.top_ps if examined else ())
        if min(*self.tries, *self.top_ks, 1) < 1 or min(self.temperatures) <= 0:
            raise ConfigurationError("tries and top_ks must be at least 1, the temperatures of tries above 0")
        wanted = asks(examination.gate) == "probabilities"
        draws = SharedDraws(probabilities=wanted, store=journal, largest=max(self.tries))
        self.twin = draws.sharing(program)
        self.state = identity(program)
        self.valset, self.journal, self.metric, self.cost = valset, journal, metric, cost
        self.in_flight, self.progress = in_flight, progress
        self.points: dict[Settings, Point] = {}
        pairs = len(self.thresholds) * len(self.tries)
        kinds = len(self.temperatures) + len(self.top_ps) - 1
        self.total = pairs * kinds + len(self.top_ks) - 1

    def run(self) -> Point:
        self._score(self.own)
        for temperature in self.temperatures:
            self._pairs(dataclasses.replace(self.own, temperature=temperature))
        for top_p in self.top_ps:
            self._pairs(dataclasses.replace(self._best().settings, top_p=top_p))
        chosen = self._best().settings
        for top_k in self.top_ks:
            self._score(dataclasses.replace(chosen, top_k=top_k))
        return self._best()

    def _pairs(self, settings: Settings) -> None:
        for tries in self.tries:
            for threshold in self.thresholds:
                self._score(dataclasses.replace(settings, tries=tries, threshold=threshold))

    def _best(self) -> Point:
        return max(self.points.values(), key=lambda point: (round(point.objective, 12), -point.retrievals))

    def _score(self, settings: Settings) -> None:
        if settings in self.points:
            return
        program = self.twin
        _apply(program, settings)
        scores, retrievals = [0.0] * len(self.valset), 0
        for outcome in answer_many(self._ask, self.valset, self.in_flight):
            example, record = self.valset[outcome.position], outcome.record
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
        program = self.twin
        asked = Asked.check(question, answer_type, choices, program.max_question_chars)
        return run_blocking(lambda: program.run(SharedSession(program.bound, self.journal, self.state), asked))


def _values(own: Any, others: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys([own, *others]))


def _exact(threshold: str) -> str:
    return _written(as_fraction(threshold))


def _written(fraction: Fraction) -> str:
    return f"{fraction.numerator}/{fraction.denominator}"
