"""What ``dspy.streamify`` streams, carried from the event loops and threads of a program to the caller's loop.

DSPy's stream belongs to the event loop that reads it, and DSPy sends to it from AnyIO's worker threads or from that
loop. A program's calls run in other loops and threads, from which nothing may touch the stream. A relay takes what is
sent from anywhere, at once, and passes it on in the loop of the stream, in the order in which it came.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import dspy

_END = object()


class Relay:
    """Stands in for a stream, in whose loop it is made; `send` may be awaited in any event loop, and never waits."""

    def __init__(self, stream: Any) -> None:
        self._home = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self._passing = self._home.create_task(self._pass_on(stream))

    async def send(self, item: Any) -> None:
        """Send something, as DSPy does."""
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
    stream = dspy.settings.send_stream
    if stream is None or isinstance(stream, Relay):
        yield None
        return
    relay = Relay(stream)
    try:
        with dspy.context(send_stream=relay):
            yield relay
    finally:
        await relay.finish()


@contextmanager
def relayed_from_thread() -> Iterator[Relay | None]:
    """As `relayed`, for blocking code in a worker thread of the loop of the stream.

    In any other thread the stream is out of reach, and nothing is streamed.
    """
    stream = dspy.settings.send_stream
    if stream is None or isinstance(stream, Relay):
        yield None
        return
    from anyio import from_thread

    try:
        relay = from_thread.run_sync(Relay, stream)
    except RuntimeError:
        with dspy.context(send_stream=None):
            yield None
        return
    try:
        with dspy.context(send_stream=relay):
            yield relay
    finally:
        from_thread.run(relay.finish)
