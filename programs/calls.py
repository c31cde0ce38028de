"""The layer through which every call to a language model or retriever goes.

Stages are written once, as coroutines. Driven by `run_blocking`, their leaf calls run in a bounded pool of threads;
driven by a caller's own event loop, they are awaited under a semaphore of the same size. Only leaf calls occupy the
bound, so a question with any number of quizzes finishes with a bound of 1.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import zip_longest
from typing import Any, Generic, TypeVar

import dspy
from dspy.utils.exceptions import (
    AdapterParseError,
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMInvalidRequestError,
    LMUnsupportedFeatureError,
    LMUnsupportedModelError,
)
from dspy.utils.usage_tracker import UsageTracker

from keqa.errors import ConfigurationError, MissingExtraError
from keqa.programs.ledger import Event, Ledger
from keqa.programs.records import Degradation
from keqa.retrievers.base import Hit, Retriever
from keqa.retrievers.caching import Kept

__all__ = ["Bound", "Branch", "CallError", "Meter", "Session", "Shared", "run_blocking", "text_of", "typed_error"]

T = TypeVar("T")

# Errors that no other question of a batch would escape: they always reach the user.
_SURFACING = (
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMUnsupportedModelError,
    LMUnsupportedFeatureError,
    ConfigurationError,
    MissingExtraError,
)
# The native engines of vLLM and Ollama report an overflow as an invalid request and only the message tells.
_OVERFLOW = re.compile(
    r"context[ _](?:length|window|size)|maximum (?:context|sequence|input|prompt)|max_model_len|too many tokens"
    r"|prompt is too long|input is too long|exceeds? the (?:model|context)",
    re.IGNORECASE,
)
# Half a key that a server repeats would be recognised by nothing that takes keys out, so the cut falls beside it.
_WHOLE_WORDS = re.compile(r"(?as).{0,497}(?![\w.~+/=-])")
_MARKER = re.compile(r"\s*\[\[ ##.*", re.DOTALL)
_COMPLETED = "[[ ## completed ## ]]"

_frontier: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar("keqa_frontier", default=frozenset())


class CallError(Exception):
    """One leaf call failed in a way that the program can degrade around.

    Attributes:
        cause: Class name of the error.
        message: Its message, shortened.
        overflow: Whether the prompt exceeded the context window.
        unusable: Whether there was a reply, which could not be used.
        spoilt: How many such replies there were; more than one only of a request for several.
    """

    def __init__(self, cause: str, message: str, *, overflow: bool = False, unusable: bool = False) -> None:
        self.cause = cause
        self.message = _shortened(message)
        self.overflow = overflow
        self.unusable = unusable
        self.spoilt = int(unusable)
        super().__init__(f"{cause}: {self.message}")


def _shortened(message: str) -> str:
    if len(message) <= 500:
        return message
    whole = _WHOLE_WORDS.match(message)
    return (whole.group() if whole else "") + "..."


class Shared(Generic[T]):
    """Holds what copies of a program have in common: a retriever, a gate, language models."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Shared[T]:
        return self


class Bound:
    """How many leaf calls may be in flight: shared by all questions of a program, by its copies and by its stages.

    It is never copied with a program; unpickled, it starts afresh.
    """

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ConfigurationError(f"workers must be at least 1, not {workers}")
        self.workers = workers
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._semaphores: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._semaphores = weakref.WeakKeyDictionary()

    def __deepcopy__(self, memo: dict[int, Any]) -> Bound:
        return self

    def __reduce__(self) -> tuple[type[Bound], tuple[int]]:
        return (Bound, (self.workers,))

    @property
    def pool(self) -> ThreadPoolExecutor:
        """The threads in which blocking leaf calls run."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="keqa-call")
            return self._pool

    def semaphore(self) -> asyncio.Semaphore:
        """The bound for the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._semaphores.setdefault(loop, asyncio.Semaphore(self.workers))

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking call in the pool, in a copy of the current context (settings, trace, usage, callbacks)."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.pool, context.run, function)


class Branch(Generic[T]):
    """A coroutine that runs beside the current one and remembers which calls its result waited for.

    Attributes:
        task: Runs it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._reached: frozenset[int] = frozenset()
        self.task = asyncio.ensure_future(self._follow(coroutine))

    async def _follow(self, coroutine: Coroutine[Any, Any, T]) -> T:
        result = await coroutine
        self._reached = _frontier.get()
        return result

    async def join(self) -> T:
        """Wait for the result; what follows then counts as having waited for this branch's calls."""
        result = await self.task
        _frontier.set(_frontier.get() | self._reached)
        return result

    def cancel(self) -> None:
        """Stop it where it has not finished."""
        if not self.task.cancel() and not self.task.cancelled():
            # An error that nobody joins is news of the one that was raised; asyncio would report it as lost.
            self.task.exception()


class Session:
    """The calls of one question: their cost, their order and what went wrong."""

    def __init__(self, bound: Bound, *, blocking: bool) -> None:
        """Start counting.

        Args:
            bound: How many calls may be in flight.
            blocking: Whether predictors are called in threads or awaited.
        """
        self.bound = bound
        self.blocking = blocking
        self.ledger = Ledger()
        self.degradations: list[Degradation] = []

    def note(self, stage: str, cause: str, message: str, action: str, quiz: int | None = None) -> None:
        """Record a degradation."""
        self.degradations.append(Degradation(stage=stage, quiz=quiz, cause=cause, message=message, action=action))

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines side by side; where one raises, the others are stopped."""
        return await self.join([Branch(coroutine) for coroutine in coroutines])

    @staticmethod
    async def join(branches: Sequence[Branch[T]]) -> list[T]:
        """Wait for all; where one raises, the others are stopped."""
        try:
            if branches:
                await asyncio.wait([branch.task for branch in branches], return_when=asyncio.FIRST_EXCEPTION)
            for branch in branches:
                if branch.task.done():
                    branch.task.result()
            return [await branch.join() for branch in branches]
        finally:
            for branch in branches:
                branch.cancel()

    async def predict(
        self,
        predictor: dspy.Predict,
        role: str,
        *,
        config: dict[str, Any] | None = None,
        demos: Callable[[], Sequence[Any]] | None = None,
        **inputs: Any,
    ) -> dspy.Prediction:
        """Call a predictor once.

        Args:
            predictor: Which to call.
            role: To whom the cost is charged: ``task``, ``consistency`` or ``utility``.
            config: Settings of this call.
            demos: Finds the demonstrations of this call, which replace the predictor's own; it may take its time.
            **inputs: Every input field, so that a trace holds complete demonstrations.

        Raises:
            CallError: The call failed, or its reply cannot be used.
            ConfigurationError: No question could be answered before the user changes something.
        """
        if (predictor.lm or dspy.settings.lm) is None:
            raise ConfigurationError("No language model is set: pass lms=... or call dspy.configure(lm=...)")
        meter, listener = Meter(dspy.settings.usage_tracker), _Listener()
        arguments = {"config": config or {}, **inputs}

        def found() -> dict[str, Any]:
            return arguments if demos is None else {**arguments, "demos": list(demos())}

        async def awaited() -> dspy.Prediction:
            async with self.bound.semaphore():
                full = found() if demos is None else await self.bound.in_thread(found)
                with event, _watched(meter, listener):
                    return await predictor.acall(**full)

        def called() -> dspy.Prediction:
            full = found()
            with event, _watched(meter, listener):
                return predictor(**full)

        event = Event(self.ledger, role, _frontier.get())
        try:
            prediction: dspy.Prediction = await (self.bound.in_thread(called) if self.blocking else awaited())
            listener.refuse_truncated()
        except Exception as error:
            event.failed = True
            known = typed_error(error)
            if isinstance(known, CallError) and known.unusable and len(listener.replies) > 1:
                known.spoilt = listener.spoilt(predictor.signature)
            raise known from error
        finally:
            # A request that failed without a reply reports no usage, yet it was made.
            event.calls = max(meter.calls, int(event.failed and not listener.history))
            event.prompt_tokens, event.completion_tokens = meter.prompt, meter.completion
            # A provider may give fewer replies than it was asked for.
            meter.add_samples(len(listener.replies) or int((config or {}).get("n") or 1))
            event.samples = meter.samples
            self._passed(event)
        return prediction

    async def search(self, retriever: Retriever, query: str, k: int) -> list[Hit]:
        """Search once.

        Raises:
            CallError: The search failed.
        """
        event = Event(self.ledger, "retrieval", _frontier.get())

        def called() -> list[Hit]:
            with event:
                found = retriever.search(query, k)
            event.saved = found.seconds if isinstance(found, Kept) else None
            return found

        async def awaited() -> list[Hit]:
            async with self.bound.semaphore():
                return await self.bound.in_thread(called)

        try:
            return await (self.bound.in_thread(called) if self.blocking else awaited())
        except Exception as error:
            event.failed = True
            raise typed_error(error) from error
        finally:
            self._passed(event)

    @staticmethod
    def _passed(event: Event) -> None:
        _frontier.set(frozenset({event.number}))


def run_blocking(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from blocking code, in a private event loop.

    Where this thread already runs a loop (a notebook), the private one runs in a thread of its own, in the same
    context.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _in_private_loop(main)
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="keqa-loop") as own:
        return own.submit(context.run, _in_private_loop, main).result()


def _in_private_loop(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        leftovers = asyncio.all_tasks(loop)
        for task in leftovers:
            task.cancel()
        if leftovers:
            loop.run_until_complete(asyncio.gather(*leftovers, return_exceptions=True))
        loop.close()


def text_of(value: object) -> str:
    """A text output as the program uses it: stripped, without a marker that an adapter left in."""
    return _MARKER.sub("", str(value or "")).strip()


def typed_error(error: Exception) -> Exception:
    """The error as the program treats it: one that surfaces, or a `CallError`."""
    if isinstance(error, CallError):
        return error
    if isinstance(error, _SURFACING):
        known = isinstance(error, (ConfigurationError, MissingExtraError))
        return error if known else ConfigurationError(f"{type(error).__name__}: {error}")
    message = str(error)
    overflow = isinstance(error, ContextWindowExceededError) or (
        isinstance(error, LMInvalidRequestError) and bool(_OVERFLOW.search(message))
    )
    return CallError(type(error).__name__, message, overflow=overflow, unusable=isinstance(error, AdapterParseError))


class Meter(UsageTracker):
    """Counts the requests that reached the language model; DSPy reports none for an answer from its cache."""

    def __init__(self, parent: UsageTracker | None) -> None:
        super().__init__()
        self.parent = parent
        self.calls = self.samples = self.prompt = self.completion = 0

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        """Count a request, here and where the usage is told further."""
        self.calls += 1
        self.prompt += usage_entry.get("prompt_tokens") or 0
        self.completion += usage_entry.get("completion_tokens") or 0
        if self.parent is not None:
            self.parent.add_usage(lm, usage_entry)

    def add_samples(self, count: int) -> None:
        """Count the replies of a request, whoever gave them."""
        self.samples += count
        if isinstance(self.parent, Meter):
            self.parent.add_samples(count)

    def add_replayed(self, usage_entry: dict[str, Any]) -> None:
        """Count the tokens of a call that a run's cache answers: the answer takes them, whoever has paid for them."""
        self.prompt += usage_entry.get("prompt_tokens") or 0
        self.completion += usage_entry.get("completion_tokens") or 0
        if isinstance(self.parent, Meter):
            self.parent.add_replayed(usage_entry)


class _Listener:
    """Stands among the calling modules, to which DSPy reports each reply with the reason it ended.

    A reply that was cut off may still parse, and half an answer must not pass for one. With ``disable_history`` DSPy
    reports nothing, and a cut reply that parses goes unseen.
    """

    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []

    @property
    def replies(self) -> list[tuple[str, str | None]]:
        """Each reply with the reason it ended, where that was told."""
        found = []
        for entry in self.history:
            texts = [out.get("text") if isinstance(out, dict) else out for out in entry.get("outputs") or []]
            reasons = _finish_reasons(entry.get("response"))
            found += [(text or "", reason) for text, reason in zip_longest(texts, reasons[: len(texts)])]
        return found

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
    except AdapterParseError:
        return False


def _cut(reply: tuple[str, str | None]) -> bool:
    text, reason = reply
    return reason == "length" and _COMPLETED not in text


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


def _watched(meter: Meter, listener: _Listener) -> AbstractContextManager[None]:
    callers = [*(dspy.settings.caller_modules or []), listener]
    context: AbstractContextManager[None] = dspy.context(usage_tracker=meter, caller_modules=callers)
    return context
