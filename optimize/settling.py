"""By what a compiled program settles questions: memory, one reading, their quizzes, or what a chooser makes of these.

Each way is scored on the validation questions with the settings that were tuned for the quizzes, and what it takes is
counted. So that the whole is never worse than its parts, the cheapest way is kept of those that are as good as the
best: not more than a standard error of the paired difference below it. The chooser is learned from what each way
answered to the training questions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from keqa.data.example import Example
from keqa.errors import InputError
from keqa.metrics.significance import paired_bootstrap
from keqa.optimize.asking import Calls, Trace
from keqa.optimize.boundary.choosing import FEWEST, Learner, Price
from keqa.optimize.boundary.outcomes import Outcome
from keqa.optimize.tuning import SETTLE, Point, Tuning
from keqa.programs.boundary.chooser import WAYS, Chooser
from keqa.programs.keqa import KEQA

CASCADE = "cascade"
TITLES = {
    "draft": "memory alone",
    "reading": "one search and one reading",
    "quizzes": "taking apart",
    CASCADE: "a chooser among them",
}
"""What each way is, in words."""
_STANDARD_ERRORS = 2 * 1.96
"""So many of them is an interval of 95 % wide."""


def as_good(one: Sequence[float], best: Sequence[float]) -> bool:
    """Whether scores are not more than a standard error, by the paired bootstrap, below the best on average."""
    if sum(one) >= sum(best):
        return True
    behind = paired_bootstrap(best, one) if len(best) > 1 else None
    return behind is not None and behind.mean <= (behind.high - behind.low) / _STANDARD_ERRORS


def cheapest_of_the_best(points: Sequence[Point]) -> Point:
    """Of the points that are as good as the best, the one with the fewest calls, then the fewest searches."""
    best = max(points, key=lambda one: one.score)
    good = [one for one in points if as_good(one.scores, best.scores)]
    return min(good, key=lambda one: (round(one.calls, 9), round(one.retrievals, 9), -one.score))


@dataclass
class Settling:
    """The ways that a tuned program may settle questions, each a point, and the one that is kept."""

    tuning: Tuning
    train: Sequence[Example]
    threshold: float
    """From what score on an answer is right."""
    points: list[Point] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    chooser: Chooser | None = None

    def run(self) -> Settling:
        """Score all ways, the chooser last: where memory alone is as good as all others, nothing could be cheaper."""
        tuning, tried = self.tuning, self.tuning.values[SETTLE]
        self.points = [tuning.measured({**tuning.best.settings, SETTLE: way}) for way in WAYS if way in tried]
        if CASCADE in tried and self.kept.settings[SETTLE] != "draft":
            try:
                self.chooser = self._learned()
            except InputError as error:
                self.problems.append(f"no chooser between memory, reading and quizzes: {error}")
        if self.chooser is not None:
            tuning.twin.chooser = self.chooser
            self.points.append(tuning.measured({**tuning.best.settings, SETTLE: CASCADE}))
        return self

    @property
    def kept(self) -> Point:
        """The point of the way that is kept."""
        return cheapest_of_the_best(self.points)

    @property
    def program(self) -> KEQA:
        """The program that settles questions in the way that is kept."""
        found = self.tuning.program_of(self.kept.settings)
        found.chooser = self.chooser if self.kept.settings[SETTLE] == CASCADE else None
        return found

    @property
    def why(self) -> str:
        """Why that way is kept, in a sentence."""
        kept = self.kept
        best = max(self.points, key=lambda one: one.score)
        said = f"{TITLES[kept.settings[SETTLE]]} ({kept.settings[SETTLE]}) is kept"
        if best is kept or kept.score >= best.score:
            rest = [one for one in self.points if one is not kept and as_good(one.scores, kept.scores)]
            more = ", and of those as good it takes the fewest LM calls" if rest else ", and no other is as good"
            return f"{said}: nothing scores better{more}"
        return f"{said}: it is as good as {best.settings[SETTLE]}, within a standard error, for fewer LM calls"

    def about(self) -> dict[str, Any]:
        """As JSON, for the report."""
        return {
            "ways": [
                {
                    "settle": point.settings[SETTLE],
                    "is": TITLES[point.settings[SETTLE]],
                    **{name: getattr(point, name) for name in ("score", "calls", "retrievals", "tokens")},
                }
                for point in self.points
            ],
            "kept": self.kept.settings[SETTLE],
            "why": self.why,
        }

    def _learned(self) -> Chooser:
        """A chooser from what each way answers to the training questions, for the costs of the compilation."""
        if len(self.train) < FEWEST:
            raise InputError(f"{len(self.train)} training questions are too few to learn from: {FEWEST} at least")
        by_way = {point.settings[SETTLE]: point for point in self.points}
        read, apart = by_way["reading"], by_way["quizzes"]
        prices = Price(read.calls, read.retrievals), Price(apart.calls, apart.retrievals)
        costs = self.tuning.cost_per_call, self.tuning.cost_per_retrieval
        return Learner(self._outcomes()).chooser(*costs, prices).chooser

    def _outcomes(self) -> list[Outcome]:
        tuning = self.tuning
        # Draws are those of tuning, but only as many as a question takes.
        asking = dataclasses.replace(tuning.asking)
        asking.calls = Calls(probabilities=tuning.draws.probabilities, store=tuning.asking.journal)
        answered: list[list[Trace]] = []
        for way in WAYS:
            program = tuning.program_of({**tuning.best.settings, SETTLE: way})
            answered.append(asking.traces(program, self.train, f"answering training questions ({way})"))
        found = zip(*answered, strict=True)
        return [one for traces in found if (one := _outcome(traces, self.threshold)) is not None]


def _outcome(traces: Sequence[Trace], threshold: float) -> Outcome | None:
    """What memory, a reading and the quizzes made of one question; None where one of them has no answer."""
    records = [trace.record for trace in traces]
    answers = [None if record is None else record.answer for record in records]
    if not all(answers):
        return None
    draft, example = records[0].quizzes[0].samples, traces[0].example
    said = dict(zip(("draft", "reading", "quizzes"), answers, strict=True))
    names = ("right", "reading_right", "quizzes_right")
    rights = {name: trace.score >= threshold for name, trace in zip(names, traces, strict=True)}
    probability = draft[0].probability if draft else None
    return Outcome(id=example.id, question=example.question, probability=probability, **said, **rights)
