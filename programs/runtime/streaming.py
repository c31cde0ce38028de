"""A question's progress as a stream: as events for `Program.stream`, as status messages for ``dspy.streamify``."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import dspy

from keqa.lms.relay import Relay
from keqa.programs.runtime.progress import Answered, Progress, heard_by

_NOBODY = SimpleNamespace(predict=None)


def streamed(ask: Callable[[], dspy.Prediction]) -> Iterator[Progress]:
    """What happens while a question is asked, as it happens.

    Args:
        ask: Asks it, blocking.

    Yields:
        Events; the last is `Answered`. Where the iterator is closed before, the question ends at its next event.

    Raises:
        Exception: What `ask` raises.
    """
    events: queue.SimpleQueue[Progress | BaseException] = queue.SimpleQueue()
    left = threading.Event()

    def hears(event: Progress) -> None:
        if left.is_set():
            raise asyncio.CancelledError
        events.put(event)

    def work() -> None:
        try:
            with heard_by(hears):
                prediction = ask()
            events.put(Answered(prediction))
        except BaseException as error:
            events.put(error)

    context = contextvars.copy_context()

    def read() -> Iterator[Progress]:
        threading.Thread(target=context.run, args=(work,), name="keqa-stream", daemon=True).start()
        try:
            while True:
                event = events.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if isinstance(event, Answered):
                    return
        finally:
            left.set()

    return read()


async def astreamed(ask: Callable[[], Awaitable[dspy.Prediction]]) -> AsyncIterator[Progress]:
    """As `streamed`, from within an event loop; a question whose events are not wanted any more is cancelled.

    Args:
        ask: Asks it.
    """
    events: asyncio.Queue[Progress | None] = asyncio.Queue()

    async def work() -> dspy.Prediction:
        try:
            with heard_by(events.put_nowait):
                return await ask()
        finally:
            events.put_nowait(None)

    task = asyncio.ensure_future(work())
    try:
        while (event := await events.get()) is not None:
            yield event
        yield Answered(await task)
    finally:
        task.cancel()


def as_status(relay: Relay | None) -> AbstractContextManager[None]:
    """Meanwhile each event is a status message of a stream.

    Args:
        relay: Of the stream; None where there is none.
    """
    if relay is None:
        return nullcontext()
    from dspy.streaming import StatusMessage

    return heard_by(lambda event: relay.put(StatusMessage(str(event))))


def only_wanted(config: dict[str, Any]) -> AbstractContextManager[None]:
    """Meanwhile a reply is streamed where a listener of the user's listens to it, and is the only one of its request.

    Without a listener DSPy streams the raw reply of every call; of a program that is dozens at once.

    Args:
        config: The settings of the call.
    """
    settings = dspy.settings
    if settings.send_stream is None or (settings.stream_listeners and (config.get("n") or 1) == 1):
        return nullcontext()
    context: AbstractContextManager[None] = dspy.context(stream_listeners=[_NOBODY])
    return context
