"""The event loops of the process, and what reaches the caller from them before a reply is whole.

In one loop questions are answered, in the other LiteLLM's requests are awaited. A blocking read can only be given up by
leaving its thread behind, for as long as a server chooses to send a byte now and then; an awaited one is cancelled, and
its connection closed. LiteLLM has connections and a worker task that do not survive a change of loops, so whoever asks
through it shares one loop. Questions have another one: what they run, such as a gate of one's own, may block it and
wait for a request.

DSPy's stream belongs to the loop that reads it, and nothing may touch it from these loops and their threads. A relay
takes what is sent from anywhere, at once, and passes it on in the loop of the stream, in the order in which it came.

Whoever calls a language model may hear the words of its reply while they are written. A model in this process and one
that is served tell them; a reply from a cache, or of an engine that gives it whole, is there at once. What is told is a
draft: the call may fail yet, or be made again.
"""

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import dspy

T = TypeVar("T")

_END = object()
_HELPERS = 32
"""Threads for the short blocking parts of awaited calls, such as looking into a cache."""

Listener = Callable[[str | None], None]
"""Is told the next words of a reply, from any thread; None where the reply begins, also once more."""


class Background:
    """One event loop for the process, in a thread that ends with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Start without a loop; a forked process has the loop without its thread."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, which runs as soon as it is wanted."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(ThreadPoolExecutor(_HELPERS, thread_name_prefix=f"{self.name}-helper"))
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self.name, daemon=True)
                self._thread.start()
            return self._loop

    def is_here(self) -> bool:
        return self._thread is threading.current_thread()

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine to its end from blocking code, in a copy of the caller's context."""
        if self.is_here():
            # Blocking code that the loop itself calls, such as a callback, must not wait for the loop.
            context = contextvars.copy_context()
            with ThreadPoolExecutor(1, thread_name_prefix=f"{self.name}-nested") as own:
                return own.submit(context.run, lambda: asyncio.run(main())).result()
        future = asyncio.run_coroutine_threadsafe(main(), self.loop)
        let_leave(future)
        try:
            return future.result()
        except BaseException:
            # An interrupt of the waiting thread; of a coroutine that has ended this changes nothing.
            future.cancel()
            raise

    async def awaited(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """As `run`, from a coroutine of any event loop; where that is cancelled, so is what it waits for."""
        if self.is_here():
            return await main()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(main(), self.loop))


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        # An exit that a task raises ends that task, and no other.
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()


_leaving: contextvars.ContextVar[Callable[[Future[Any]], None]] = contextvars.ContextVar("keqa_leaving")


@contextmanager
def leaving() -> Iterator[Callable[[], None]]:
    """What is waited for within this context, in any thread, is given up once the function that it yields is called."""
    lock, left = threading.Lock(), threading.Event()
    waited: weakref.WeakSet[Future[Any]] = weakref.WeakSet()

    def take(future: Future[Any]) -> None:
        with lock:
            waited.add(future)
        if left.is_set():
            future.cancel()

    def leave() -> None:
        left.set()
        with lock:
            given_up = list(waited)
        for future in given_up:
            future.cancel()

    token = _leaving.set(take)
    try:
        yield leave
    finally:
        _leaving.reset(token)


def let_leave(future: Future[Any]) -> None:
    """Have what is waited for here given up where somebody may leave; see `leaving`."""
    if (take := _leaving.get(None)) is not None:
        take(future)


requests = Background("keqa-requests")
questions = Background("keqa-questions")


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("keqa_drafts", default=None)


@contextmanager
def drafts_to(listener: Listener) -> Iterator[None]:
    """Within this context somebody hears of replies while they are written."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def who_listens() -> Listener | None:
    return _listener.get()


class Relay:
    """Stands in for a stream, in whose loop it is made; `send` may be awaited in any event loop, and never waits."""

    def __init__(self, stream: Any) -> None:
        self._home = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._passing = self._home.create_task(self._pass_on(stream))

    async def send(self, item: Any) -> None:
        self.put(item)

    def put(self, item: Any) -> None:
        """Send something, from any thread; where the loop of the stream has ended, nobody hears of it."""
        with suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._queue.put_nowait, item)

    async def finish(self) -> None:
        """Wait until all was passed on; to be called in the loop of the stream."""
        self.put(_END)
        try:
            await self._passing
        finally:
            self._passing.cancel()

    async def _pass_on(self, stream: Any) -> None:
        import anyio

        # Who reads the stream may have left before the program has ended.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while (item := await self._queue.get()) is not _END:
                await stream.send(item)


@asynccontextmanager
async def relayed() -> AsyncIterator[Relay | None]:
    """Meanwhile calls in any loop and thread may stream; to be entered in the loop of the stream."""
    if not streams_here():
        yield None
        return
    relay = Relay(dspy.settings.send_stream)
    try:
        with dspy.context(send_stream=relay):
            yield relay
    finally:
        await relay.finish()


def streams_here() -> bool:
    """Whether replies are streamed to where a call is made: the stream belongs to the caller's own event loop."""
    stream = dspy.settings.send_stream
    return stream is not None and not isinstance(stream, Relay)


@contextmanager
def relayed_from_thread() -> Iterator[Relay | None]:
    """As `relayed`, in a worker thread of the stream's loop; in any other thread nothing is streamed."""
    if not streams_here():
        yield None
        return
    from anyio import from_thread

    try:
        relay = from_thread.run_sync(Relay, dspy.settings.send_stream)
    except RuntimeError:
        with dspy.context(send_stream=None):
            yield None
        return
    try:
        with dspy.context(send_stream=relay):
            yield relay
    finally:
        from_thread.run(relay.finish)
