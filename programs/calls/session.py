"""The question that is answered in this context: what its calls cost, how many run at once, what went wrong.

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
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import dspy

from keqa.lms.background import questions
from keqa.programs.arguments import Workers, checked
from keqa.programs.calls.cost import Ledger
from keqa.programs.records import Degradation

if TYPE_CHECKING:
    from keqa.programs.calls.progress import Progress

T = TypeVar("T")


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


class Session:
    """The calls of one question.

    Attributes:
        bound: How many calls may be in flight.
        blocking: Whether predictors are called in threads; those of a served language model are awaited anyway.
        lms: The language models of the program by role; None where those of ``dspy.settings`` answer.
        steps: Under which name the calls of a predictor are counted, by its `id`; others are counted by role only.
        hides: Whether a demonstration of a predictor's own, with this signature, is left out.
        provisional: Whether the answer to the question may yet be withheld.
        made: What parts of the program called by themselves already, by what was asked.
    """

    def __init__(self, bound: CallLimiter, *, blocking: bool, lms: Any = None) -> None:
        self.bound, self.blocking, self.lms = bound, blocking, lms
        self.ledger = Ledger()
        self.degradations: list[Degradation] = []
        self.steps: Mapping[int, str] = {}
        self.hides: Callable[[Any, type[dspy.Signature]], bool] | None = None
        self.provisional = False
        self.made: dict[Hashable, Any] = {}

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work through the calls of this session."""
        with within(session=self):
            return await work

    def count_steps(self, predictors: Iterable[tuple[str, dspy.Predict]]) -> None:
        """Count the calls of each predictor by itself, under its name."""
        self.steps = {id(predictor): name for name, predictor in predictors}

    def note(
        self, stage: str, cause: str, message: str, action: str, quiz: int | None = None, *, harmless: bool = False
    ) -> None:
        """Record a degradation; see there for the arguments."""
        self.degradations.append(
            Degradation(stage=stage, quiz=quiz, cause=cause, message=message, action=action, harmless=harmless)
        )


@dataclass(frozen=True)
class Context:
    """What calls in this context belong to.

    Attributes:
        session: Of the question that is answered.
        hears: Who hears of the questions that are asked.
        asked: The words of the question, for a utility reference.
        left_out: Ids of questions of which a utility reference shows nothing.
        kept: How the replies to the call that is made now can be forgotten, as caches report them.
        caller: Makes calls in the place of `keqa.programs.calls.ask.predict`; it is told as `nth` how many attempts at
            a call failed before.
    """

    session: Session | None = None
    hears: tuple[Callable[[Progress], None], ...] = ()
    asked: str = ""
    left_out: frozenset[str] = frozenset()
    kept: list[Callable[[], None]] | None = None
    caller: Callable[..., Coroutine[Any, Any, dspy.Prediction]] | None = None


_context: contextvars.ContextVar[Context] = contextvars.ContextVar("keqa_calls")
_NOTHING = Context()


def context() -> Context:
    """What calls in this context belong to."""
    return _context.get(_NOTHING)


@contextmanager
def within(**changes: Any) -> Iterator[None]:
    """Meanwhile the context is another one; see `Context`."""
    token = _context.set(replace(_context.get(_NOTHING), **changes))
    try:
        yield
    finally:
        _context.reset(token)


def current() -> Session:
    """The session of the question that is answered."""
    session = _context.get(_NOTHING).session
    assert session is not None, "calls are made within a question"
    return session


def note(stage: str, cause: str, message: str, action: str, quiz: int | None = None, *, harmless: bool = False) -> None:
    """Record a degradation of the question; see there for the arguments."""
    current().note(stage, cause, message, action, quiz, harmless=harmless)


def report(event: Progress) -> None:
    """Let whoever listens hear what happened."""
    if current().provisional and hasattr(event, "provisional"):
        event = replace(event, **{"provisional": True})
    for hears in _context.get(_NOTHING).hears:
        hears(event)


async def in_thread(function: Callable[[], T]) -> T:
    """Run what takes its time in a thread of the question's, so that other questions' calls do not wait."""
    return await current().bound.in_thread(function)


async def gather(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines side by side; where one raises, the others are stopped."""
    return await joined([asyncio.ensure_future(one) for one in coroutines])


async def joined(tasks: Iterable[asyncio.Task[T]]) -> list[T]:
    """Wait for all; where one raises, the others are stopped."""
    tasks = list(tasks)
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        # Where one is not done, another has raised.
        return [task.result() for task in tasks if task.done()]
    finally:
        for task in tasks:
            if not task.cancel() and not task.cancelled():
                # An error that nobody waits for is news of the one that was raised; asyncio would report it as lost.
                task.exception()


def run_blocking(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from blocking code, in the event loop of all questions."""
    return questions.run(main)
