"""Questions that failed: counted for the report, and refused where most of a step failed for a passing reason.

A server that is down or a rate limit that is exceeded says nothing about a program. Scored as wrong answers, such
failures would choose demonstrations and settings at random.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple, Self, TypeVar

from keqa.errors import StageError, TooManyFailuresError
from keqa.programs.calls.batch import in_parallel
from keqa.programs.calls.errors import is_transient
from keqa.programs.records import QuestionRecord

T = TypeVar("T")
R = TypeVar("R")

_FEW = 2
"""So many failures are no ground to stop, unless they are most of a whole step."""
_ON_END = 8
"""So many questions in succession that fail end a step whose length is not known."""


class Failed(NamedTuple):
    """Questions of a step that have no answer."""

    step: str
    asked: int
    failed: int
    cause: str


def passing_cause(record: QuestionRecord | None, error: Exception | None = None) -> str | None:
    """Why a question was not asked as it should be, where another attempt may fare better; None where it was."""
    if isinstance(error, StageError) and is_transient(error.cause):
        return f"{error.cause}: {error.message}"
    if record is None:
        return None
    # What another attempt mended is no reason.
    failed = ([] if record.failure is None else [record.failure]) + [one for one in record.degradations if one.touches]
    return next((f"{one.cause}: {one.message}" for one in failed if is_transient(one.cause)), None)


class FailureMonitor:
    """Counts the questions of a step, and stops it where most fail for a passing reason. Safe in many threads."""

    def __init__(self, step: str, total: int | None = None, before: Self | None = None) -> None:
        """Begin after what earlier parts of the step counted."""
        self._step, self._total = step, total
        self._before = 0 if before is None else before.summary.asked
        self._causes: Counter[str] = Counter() if before is None else before._causes.copy()
        self._asked = self._fresh = self._passing = self._in_succession = 0
        self._too_many, self._last = False, ""
        self._lock = threading.Lock()

    def each(
        self,
        items: Sequence[T],
        work: Callable[[T], R],
        count: Callable[[R], None],
        in_flight: int,
        progress: Callable[[str, int, int], None] = lambda step, done, total: None,
    ) -> list[R]:
        """What comes of items side by side, in their order; each is counted, and too many that fail end the step."""
        found: dict[int, R] = {}
        progress(self._step, 0, len(items))
        places = takewhile(lambda place: not self._too_many, range(len(items)))
        for place, made in in_parallel(lambda at: (at, work(items[at])), places, in_flight):
            found[place] = made
            count(made)
            progress(self._step, len(found), len(items))
        self.refuse()
        return [found[place] for place in range(len(items))]

    def add(self, record: QuestionRecord | None, error: Exception | None = None) -> None:
        """Count a question; one whose calls were all kept by an earlier run says nothing of the server."""
        cause = None if error is None else getattr(error, "cause", type(error).__name__)
        self.count(cause, passing_cause(record, error), fresh=record is None or record.cost.calls > 0)

    def count(self, cause: str | None, passing: str | None = None, *, fresh: bool = True) -> None:
        """Count a piece of work, and why it failed, if it did."""
        with self._lock:
            self._asked += 1
            self._fresh += fresh or passing is not None
            self._causes.update([] if cause is None else [cause])
            if passing is None:
                self._in_succession = 0
                return
            self._passing, self._in_succession = self._passing + 1, self._in_succession + 1
            self._last = passing
            long = self._in_succession >= _ON_END if self._total is None else 2 * self._passing > self._total
            self._too_many = self._too_many or long

    def refuse(self) -> None:
        """End the step where too many failed: of all, or of those that no earlier run had answered."""
        most = self._asked == self._total and 2 * self._passing > self._fresh and self._passing > _FEW
        if most or self._too_many:
            raise TooManyFailuresError(
                f"{self._step}: {self._passing} of {self._total or self._asked} questions could not be asked as they "
                f"should be ({self._last}). Nothing is chosen by such scores. What was finished is kept: once the "
                "cause is gone, the same command in the same folder resumes where it was"
            )

    def outcome(self, cause: str | None = None, passing: str | None = None) -> None:
        """Count a piece of work and end the step where too many failed; see `count` and `refuse`."""
        self.count(cause, passing)
        self.refuse()

    @property
    def summary(self) -> Failed:
        cause = self._causes.most_common(1)[0][0] if self._causes else ""
        return Failed(self._step, self._before + (self._total or self._asked), self._causes.total(), cause)


class Failures:
    """What failed in a compilation, by step."""

    def __init__(self) -> None:
        self._steps: dict[str, FailureMonitor] = {}

    def watch(self, step: str, total: int | None = None) -> FailureMonitor:
        """Begin a step, or a further part of one."""
        self._steps[step] = FailureMonitor(step, total, self._steps.get(step))
        return self._steps[step]

    @property
    def found(self) -> list[Failed]:
        """The steps in which something failed, in their order."""
        return [one for one in (watch.summary for watch in self._steps.values()) if one.failed]
