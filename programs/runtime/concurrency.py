"""How many calls are in flight, and which of them wait for which.

Stages are written once, as coroutines. Blocking callers have them run in one event loop for all questions
(`keqa.lms.background.questions`), others in their own. Leaf calls are awaited under a semaphore, or run in threads
under the same one. Only leaf calls occupy the bound, so that any number of quizzes finishes with a bound of 1.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import dspy

from keqa.lms.background import questions
from keqa.programs.arguments import Workers, checked

T = TypeVar("T")

reached: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar("keqa_reached", default=frozenset())
"""The calls that what runs now has waited for last, by their numbers."""


class NoCopy(Generic[T]):
    """Holds what copies of a program have in common: a retriever, a gate, language models."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> NoCopy[T]:
        return self


@checked
class CallLimiter:
    """How many leaf calls may be in flight: shared by all questions of a program, by its copies and by its stages.

    It is never copied with a program; unpickled, and in a forked process, it starts afresh.
    """

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.start_afresh()
        _limiters.add(self)

    def start_afresh(self) -> None:
        """Start without threads, and with nothing in flight."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._semaphores: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._semaphores = weakref.WeakKeyDictionary()

    def __deepcopy__(self, memo: dict[int, Any]) -> CallLimiter:
        return self

    def __reduce__(self) -> tuple[type[CallLimiter], tuple[int]]:
        return (CallLimiter, (self.workers,))

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
        """Run a blocking call in a thread, in a copy of the current context (settings, trace, usage, callbacks)."""
        if dspy.settings.send_stream is not None:
            # DSPy streams from AnyIO's threads only; the semaphore bounds how many there are.
            from anyio import CapacityLimiter, to_thread

            return await to_thread.run_sync(function, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.pool, context.run, function)


_limiters: weakref.WeakSet[CallLimiter] = weakref.WeakSet()


def _forget_threads() -> None:
    """A forked process has its parent's pools without their threads, and would wait for them forever."""
    for limiter in list(_limiters):
        limiter.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


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
        self._reached = reached.get()
        return result

    async def join(self) -> T:
        """Wait for the result; what follows then counts as having waited for this branch's calls."""
        result = await self.task
        reached.set(reached.get() | self._reached)
        return result

    def cancel(self) -> None:
        """Stop it where it has not finished."""
        if not self.task.cancel() and not self.task.cancelled():
            # An error that nobody joins is news of the one that was raised; asyncio would report it as lost.
            self.task.exception()


def run_blocking(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from blocking code, in the event loop of all questions."""
    return questions.run(main)
