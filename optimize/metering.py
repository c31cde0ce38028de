"""What a compilation costs, over all the runs that it took."""

from __future__ import annotations

import threading
from typing import Any

import dspy
from dspy.utils.usage_tracker import UsageTracker

from keqa.programs.calls.session import token_count
from keqa.programs.records import CallCost
from keqa.storage.journal import Journal

COUNTED = {"calls", "prompt_tokens", "completion_tokens"}
"""What of a `CallCost` is counted here: what reached a language model, and its tokens."""

_KEY = "spent"
_EVERY = 50
"""So many requests at most are unknown to the next run where this one is killed."""


class Meter(UsageTracker):
    """Counts requests to language models in a journal while it is DSPy's usage tracker, and tells the one before."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._parent: UsageTracker | None = dspy.settings.usage_tracker
        self._journal, self._lock, self._keeping = journal, threading.Lock(), threading.Lock()
        self.earlier = journal.get_as(_KEY, CallCost.model_validate) or CallCost()
        self._calls = self._read = self._written = 0

    def __deepcopy__(self, memo: dict[int, Any]) -> Meter:
        # DSPy copies the usage tracker into each of its threads; what they spend is one sum.
        return self

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        """Count a request; DSPy reports none for an answer from its cache."""
        with self._lock:
            self._calls += 1
            self._read += token_count(usage_entry.get("prompt_tokens"))
            self._written += token_count(usage_entry.get("completion_tokens"))
            due = self._calls % _EVERY == 0
        if due:
            self.keep()
        if self._parent is not None:
            self._parent.add_usage(lm, usage_entry)

    def add_failed(self) -> None:
        """Count a request that was sent and got no reply that reports its usage."""
        self.add_usage("", {})

    @property
    def spent(self) -> CallCost:
        """What this run has cost so far."""
        with self._lock:
            return CallCost(
                calls=self._calls, samples=self._calls, prompt_tokens=self._read, completion_tokens=self._written
            )

    def keep(self) -> None:
        """Write the count down, so that a later run in the same folder knows of it."""
        # One at a time, so that no smaller count is written after a greater one.
        with self._keeping:
            if self.spent.calls:
                self._journal.put(_KEY, (self.earlier + self.spent).model_dump(include=COUNTED))
