"""By what a compiled program settles questions: memory, one reading, or their quizzes.

Each way is scored on the validation questions with the settings that were tuned for the quizzes, and what it takes is
counted. So that the whole is never worse than its parts, the cheapest way is kept of those that are as good as the
best: not more than a standard error of the paired difference below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keqa.metrics.significance import paired_bootstrap
from keqa.optimize.tuning import SETTLE, Point, Tuning
from keqa.programs.keqa import KEQA

TITLES = {
    "draft": "memory alone",
    "reading": "one search and one reading",
    "quizzes": "taking apart",
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
    points: list[Point] = field(default_factory=list)

    def run(self) -> Settling:
        """Score all ways."""
        tuning = self.tuning
        tried = [way for way in TITLES if way in tuning.values[SETTLE]]
        for done, way in enumerate(tried, start=1):
            own = way == tuning.best.settings[SETTLE]
            self.points.append(tuning.best if own else tuning.measured({**tuning.best.settings, SETTLE: way}))
            tuning.asking.progress("settling", done, len(tried))
        return self

    @property
    def kept(self) -> Point:
        """The point of the way that is kept."""
        return cheapest_of_the_best(self.points)

    @property
    def program(self) -> KEQA:
        """The program that settles questions in the way that is kept."""
        return self.tuning.program_of(self.kept.settings)

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
