"""Where a run stands: counts and means, kept up as lines come, so that no line has to be."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from keqa.evaluation.records import RunLine
from keqa.metrics.abstention import Declining
from keqa.programs.records import Cost


def count_declined(found: Declining, line: Any) -> None:
    """Count what a line, in full or in brief, says of answering and declining."""
    found.add(
        answered=line.answered,
        right=line.right,
        declined=line.declined,
        found=line.unanswered,
        unanswerable=not line.answers,
    )


@dataclass
class Tally:
    """Sums over the lines of a run. A failed question scores 0 in the means, and is counted by itself as well."""

    questions: int
    done: int = 0
    asked: int = 0
    failed: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    impaired: int = 0
    impairments: Counter[str] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    learned_from: int = 0
    learned_unknown: bool = False
    declining: Declining = field(default_factory=Declining)
    cost: Cost = field(default_factory=Cost)
    _sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    _untouched: Counter[str] = field(default_factory=Counter)
    _untouched_sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, line: RunLine) -> None:
        """Count a line."""
        self.done += 1
        if line.error is not None:
            self.failed += 1
            self.causes[line.error.cause] += 1
        if passing := set(line.impairments):
            self.impaired += 1
            self.impairments.update(passing)
        count_declined(self.declining, line)
        for name, score in line.scores.items():
            self.scored[name] += 1
            self._sums[name] += score
            if not line.touched:
                self._untouched[name] += 1
                self._untouched_sums[name] += score
        if line.record is not None:
            self.cost += line.record.cost

    def mean(self, score: str) -> float | None:
        """The mean of a score so far; None where no question has it."""
        return self._sums[score] / self.scored[score] if self.scored[score] else None

    @property
    def untouched(self) -> int:
        """How many of `done` no failure touched."""
        return self.done - self.failed - self.impaired

    def untouched_mean(self, score: str) -> float | None:
        """The mean of a score over the questions that no failure touched; None where none of them has it."""
        count = self._untouched[score]
        return self._untouched_sums[score] / count if count else None

    def a_question(self, count: int) -> float:
        """A sum as the mean over the questions asked so far."""
        return count / self.done if self.done else 0.0
