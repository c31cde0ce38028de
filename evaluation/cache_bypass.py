"""What replaces DSPy's cache during a run, and how a question that is asked again gets a new reply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import dspy

from keqa.programs.runtime.forgetting import listen_to

_again: ContextVar[bool] = ContextVar("keqa_calls_again", default=False)


@contextmanager
def bypass_cache() -> Iterator[None]:
    """Within this context every call is made, and what it gets takes the place of what was kept.

    Replies that cannot be used are in no cache (`keqa.programs.runtime.forgetting`); one that could be used and yet
    failed its question would be given again. Samples that gates share stay as they are, but those of a set in which a
    call failed.
    """
    token = _again.set(True)
    try:
        yield
    finally:
        _again.reset(token)


def is_cache_bypassed() -> bool:
    """Whether this is within `bypass_cache`."""
    return _again.get()


@contextmanager
def install_cache(cache: Any) -> Iterator[None]:
    """Within this context a cache is DSPy's, for all threads of the process."""
    before = vars(dspy).get("cache")
    dspy.cache = cache
    try:
        yield
    finally:
        if before is None:
            # DSPy makes its own when it is next read.
            del dspy.cache
        else:
            dspy.cache = before


@contextmanager
def dspys_own() -> Iterator[None]:
    """Within this context DSPy's own cache answers, except `bypass_cache`."""
    listen_to(dspy.cache)
    with install_cache(_Own(dspy.cache)):
        yield


class _Own:
    """DSPy's cache, which has no answer within `bypass_cache` and keeps what is got there."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def get(self, *request: Any, **options: Any) -> Any:
        return None if is_cache_bypassed() else self._cache.get(*request, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)
