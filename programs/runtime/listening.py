"""What a request cost and how its replies ended, heard from DSPy while a predictor is called."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from keqa.programs.runtime.errors import CallError
from keqa.signatures.markers import is_completed

_MOST_TOKENS = 100_000_000
"""More than any one request takes; what a server reports beyond that is no count."""


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
    """A number of tokens that a server reports; 0 for what can be none.

    Args:
        reported: Anything.
    """
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
    """While it is entered, DSPy reports every request to both.

    Args:
        meter: Hears what requests cost.
        listener: Hears how replies ended.
    """
    callers = [*(dspy.settings.caller_modules or []), listener]
    context: AbstractContextManager[None] = dspy.context(usage_tracker=meter, caller_modules=callers)
    return context
