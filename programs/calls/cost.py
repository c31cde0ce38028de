"""What the calls of one question cost and how replies ended, heard from DSPy while a predictor is called."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import zip_longest
from types import TracebackType
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from keqa.programs.calls.errors import CallError
from keqa.programs.records import CallCost, Cost
from keqa.signatures.markers import is_completed

_MOST_TOKENS = 100_000_000
"""More than any one request takes; what a server reports beyond that is no count."""


@dataclass
class Event:
    """One leaf call; a context manager around its execution, without the wait for a free worker.

    Attributes:
        ledger: Where it is kept.
        role: ``task``, ``consistency``, ``utility``, ``boundary`` or ``retrieval``.
        step: Name of the predictor that it was for; empty for a search, and for a call of no program.
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
    step: str = ""
    started: float | None = None
    seconds: float = 0.0
    failed: bool = False
    calls: int = 0
    samples: int = 1
    saved: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __post_init__(self) -> None:
        self.ledger.add(self)

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

    def add(self, event: Event) -> None:
        """Keep a call."""
        with self._lock:
            self._events.append(event)

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
        )


class Meter(UsageTracker):
    """Counts the requests that were sent to the language model; DSPy reports none for an answer from its cache."""

    def __init__(self, parent: UsageTracker | None) -> None:
        super().__init__()
        self.parent = parent
        self.calls = self.samples = self.prompt = self.completion = 0

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        """Count a request, here and where the usage is reported further."""
        self.calls += 1
        self._add_tokens(usage_entry)
        if self.parent is not None:
            self.parent.add_usage(lm, usage_entry)

    def add_failed(self) -> None:
        """Count a request that was sent and got no reply that reports its usage."""
        self.calls += 1
        add = getattr(self.parent, "add_failed", None)
        if add is not None:
            add()

    def add_samples(self, count: int) -> None:
        """Count the replies of a request, whoever gave them."""
        self.samples += count
        if isinstance(self.parent, Meter):
            self.parent.add_samples(count)

    def add_replayed(self, usage_entry: dict[str, Any]) -> None:
        """Count the tokens of a call that a run's cache answers: the answer takes them, whoever has paid for them."""
        self._add_tokens(usage_entry)
        if isinstance(self.parent, Meter):
            self.parent.add_replayed(usage_entry)

    def _add_tokens(self, usage_entry: dict[str, Any]) -> None:
        self.prompt += token_count(usage_entry.get("prompt_tokens"))
        self.completion += token_count(usage_entry.get("completion_tokens"))


def token_count(reported: Any) -> int:
    """A number of tokens that a server reports; 0 for what can be none."""
    is_count = isinstance(reported, int) and not isinstance(reported, bool) and 0 <= reported <= _MOST_TOKENS
    return reported if is_count else 0


class Listener:
    """Stands among the calling modules, to which DSPy reports each reply with the reason it ended.

    A reply that was cut off may still parse, and half an answer must not pass for one. With ``disable_history`` DSPy
    reports nothing, and a cut reply that parses goes unseen.
    """

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []

    @property
    def replies(self) -> list[tuple[str, str | None]]:
        """Each reply with the reason it ended, where that was given."""
        found = []
        for entry in self.history:
            texts = [out.get("text") if isinstance(out, dict) else out for out in entry.get("outputs") or []]
            reasons = _finish_reasons(entry.get("response"))
            found += [(text or "", reason) for text, reason in zip_longest(texts, reasons[: len(texts)])]
        return found

    @property
    def only(self) -> str | None:
        """The reply, where there was one only; it ends with a line break unless it was cut off."""
        if len(self.replies) != 1:
            return None
        text, reason = self.replies[0]
        return text if reason == "length" else f"{text}\n"

    def refuse_truncated(self) -> None:
        """Raise where a reply ended at the token limit before it was complete."""
        if any(map(_cut, self.replies)):
            raise CallError("TruncatedReplyError", "the reply ended at the token limit", unusable=True)

    def spoilt(self, signature: type[dspy.Signature]) -> int:
        """How many replies were cut off or cannot be read; at least one."""
        adapter = dspy.settings.adapter or dspy.ChatAdapter()
        return max(1, sum(_cut(reply) or not _readable(adapter, signature, reply[0]) for reply in self.replies))


def _readable(adapter: dspy.Adapter, signature: type[dspy.Signature], text: str) -> bool:
    try:
        return bool(text) and bool(adapter.parse(signature, text))
    except (AdapterParseError, ValueError, RecursionError):
        # DSPy's own adapters let errors of their parsers through.
        return False


def _cut(reply: tuple[str, str | None]) -> bool:
    text, reason = reply
    return reason == "length" and not is_completed(text)


def _finish_reasons(response: Any) -> list[str | None]:
    """Why each reply ended, from either kind of response that DSPy keeps."""
    if isinstance(response, tuple):
        return [getattr(one, "finish_reason", None) for one in response]
    choices = getattr(response, "choices", None)
    if choices is None:
        return [getattr(response, "finish_reason", None)]
    return [
        one.get("finish_reason") if isinstance(one, dict) else getattr(one, "finish_reason", None) for one in choices
    ]


def listened(meter: Meter, listener: Listener) -> AbstractContextManager[None]:
    """While it is entered, DSPy reports what every request cost to the one, and how replies ended to the other."""
    callers = [*(dspy.settings.caller_modules or []), listener]
    context: AbstractContextManager[None] = dspy.context(usage_tracker=meter, caller_modules=callers)
    return context
