"""Replies of a server that cannot be used are taken out of the cache again.

DSPy puts a reply into its cache before anything reads it. A reply that is empty, cut off or in no format would be given
again and again, long after the server that gave it is mended. So while a predictor is called, caches report which
replies they keep, and a reply that turns out to be of no use is forgotten. A model of this process would only give it
again (`TransformersEngine.repeats`): its failures stay, and cost a repeated question nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import dspy
from dspy.clients.cache import Cache

_current: ContextVar[list[Callable[[], None]] | None] = ContextVar("keqa_kept_replies", default=None)


@contextmanager
def keeping(lm: Any) -> Iterator[list[Callable[[], None]]]:
    """Within this context caches report which replies they keep; DSPy's own does, as does any that calls `tell_kept`.

    Args:
        lm: The language model that is called. DSPy makes its cache, with a folder on the disk, when it is first read,
            and one that caches nothing must not cause that.

    Yields:
        How to forget each reply that a cache gave or took.
    """
    kept: list[Callable[[], None]] = []
    if getattr(lm, "cache", False):
        listen_to(dspy.cache)
    token = _current.set(kept)
    try:
        yield kept
    finally:
        _current.reset(token)


def tell_kept(forget: Callable[[], None]) -> None:
    """Tell the call that is made now, if there is one, how a reply to it can be forgotten."""
    kept = _current.get()
    if kept is not None:
        kept.append(forget)


def listen_to(cache: Any) -> None:
    """Have DSPy's own cache report what it keeps: it computes a key whenever it looks something up or puts it in."""
    if not isinstance(cache, Cache) or "cache_key" in vars(cache):
        return
    key_of = cache.cache_key

    def cache_key(request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> str:
        key: str = key_of(request, ignored_args_for_cache_key)
        tell_kept(partial(_forget, cache, key))
        return key

    cache.cache_key = cache_key


def _forget(cache: Cache, key: str) -> None:
    with cache._lock:
        cache.memory_cache.pop(key, None)
    if cache.enable_disk_cache:
        cache.disk_cache.delete(key)
