"""The event loop in which all requests to servers are awaited, so that each can be cancelled at its deadline.

A blocking read can only be given up by leaving its thread behind, for as long as a server chooses to send a byte now
and then. An awaited one is cancelled, and its connection closed. Blocking and awaiting callers share one loop, since
LiteLLM has connections and a worker task that do not survive a change of loops.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

__all__ = ["awaited", "is_here", "run"]

T = TypeVar("T")

_HELPERS = 32
"""Threads for the short blocking parts of awaited calls, such as looking into a cache."""


class _Background:
    """One event loop for the process, in a thread that ends with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(ThreadPoolExecutor(_HELPERS, thread_name_prefix="keqa-request"))
                self._thread = threading.Thread(target=self._loop.run_forever, name="keqa-requests", daemon=True)
                self._thread.start()
            return self._loop

    def is_here(self) -> bool:
        """Whether this is the loop's own thread."""
        return self._thread is threading.current_thread()

    def forget(self) -> None:
        """A forked process has the loop without its thread."""
        self.__init__()  # type: ignore[misc]


_background = _Background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.forget)


def is_here() -> bool:
    """Whether this code runs in the loop's own thread."""
    return _background.is_here()


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from blocking code, in the caller's context.

    Args:
        main: Makes the coroutine.

    Returns:
        What it returns.
    """
    loop = _background.loop()
    if _background.is_here():
        # Blocking code that the loop itself calls, such as a callback, must not wait for the loop.
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1, thread_name_prefix="keqa-request") as own:
            return own.submit(context.run, lambda: asyncio.run(main())).result()
    future = asyncio.run_coroutine_threadsafe(main(), loop)
    try:
        return future.result()
    except BaseException:
        # An interrupt of the waiting thread; of a coroutine that has ended this changes nothing.
        future.cancel()
        raise


async def awaited(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """As `run`, from a coroutine of any event loop; where that is cancelled, so is what it waits for.

    Args:
        main: Makes the coroutine.

    Returns:
        What it returns.
    """
    loop = _background.loop()
    if _background.is_here():
        return await main()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(main(), loop))
