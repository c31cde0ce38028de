"""What the calls of one question cost, and which of them had to wait for which."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

from keqa.programs.records import CallCost, Cost, CriticalPath


@dataclass
class Event:
    """One leaf call; a context manager around its execution, without the wait for a free worker.

    Attributes:
        ledger: Where it is kept.
        role: ``task``, ``consistency``, ``utility``, ``boundary`` or ``retrieval``.
        after: Numbers of the calls whose results it waited for.
        step: Name of the predictor that it was for; empty for a search, and for a call of no program.
        number: Its place in the order in which calls were asked for, greater than all in `after`.
        started: Clock at the start.
        seconds: How long it took.
        failed: Whether it gave no usable result.
        calls: Requests that were sent to the language model, each attempt by itself; 0 where the cache answered.
        samples: Replies drawn, now or when a cache learnt them; see `keqa.programs.records.CallCost`.
        saved: Of a search that a cache answered, how long it took when it was made; None where it was made now.
        prompt_tokens: As reported.
        completion_tokens: As reported.
    """

    ledger: Ledger
    role: str
    after: frozenset[int]
    step: str = ""
    number: int = field(init=False)
    started: float | None = None
    seconds: float = 0.0
    failed: bool = False
    calls: int = 0
    samples: int = 1
    saved: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __post_init__(self) -> None:
        self.number = self.ledger.add(self)

    @property
    def taken(self) -> float:
        """How long it takes where no cache answers."""
        return self.seconds + (self.saved or 0.0)

    @property
    def cost(self) -> CallCost:
        """Of a call to a language model."""
        return CallCost(
            calls=self.calls,
            cached=int(self.calls == 0),
            samples=self.samples,
            failed=int(self.failed),
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            seconds=self.seconds,
        )

    def __enter__(self) -> Event:
        self.started = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.started is not None
        self.seconds = time.perf_counter() - self.started


class Ledger:
    """The calls of one question."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self._events: list[Event] = []
        self._lock = threading.Lock()

    def add(self, event: Event) -> int:
        """Keep a call and return its number."""
        with self._lock:
            self._events.append(event)
            return len(self._events) - 1

    def cost(self) -> Cost:
        """Everything so far. Calls that never ran, because the question had failed meanwhile, cost nothing."""
        with self._lock:
            events = [event for event in self._events if event.started is not None]
        searches = [event for event in events if event.role == "retrieval"]
        roles = sorted({event.role for event in events} - {"retrieval"})
        steps = sorted({event.step for event in events} - {""})
        return Cost(
            by_role={role: sum((one.cost for one in events if one.role == role), CallCost()) for role in roles},
            by_step={step: sum((one.cost for one in events if one.step == step), CallCost()) for step in steps},
            retrievals=len(searches),
            retrievals_cached=sum(event.saved is not None for event in searches),
            retrieval_seconds=sum(event.taken for event in searches),
            # A cache's time is no method's time.
            seconds=time.perf_counter() - self.started + sum(event.saved or 0.0 for event in searches),
            critical_path=self.critical_path(),
        )

    def critical_path(self) -> CriticalPath:
        """The longest chains through the recorded waits, by number of calls and by time."""
        with self._lock:
            events = list(self._events)
        calls: list[int] = []
        seconds: list[float] = []
        for event in events:
            ran = event.started is not None
            calls.append(max((calls[number] for number in event.after), default=0) + ran)
            seconds.append(max((seconds[number] for number in event.after), default=0.0) + event.taken)
        return CriticalPath(calls=max(calls, default=0), seconds=max(seconds, default=0.0))
