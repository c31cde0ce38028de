"""Replies of a server that cannot be used are taken out of the cache again.

DSPy puts a reply into its cache before anything reads it. A reply that is empty, cut off or in no format would be given
again and again, long after the server that gave it is mended. So while a predictor is called, caches report which
replies they keep, and a reply that turns out to be of no use is forgotten. A model of this process would only give it
again (`TransformersEngine.repeats`): its failures stay, and cost a repeated question nothing.

Rollouts are the same language model drawing again, as DSPy's ``BestOfN``, ``Refine`` and SIMBA ask for: they give a
copy of it another ``rollout_id`` and a temperature. A program gives its samples identities of its own, so the rollout
has to be a part of them, or else every rollout would draw the same samples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import dspy
from dspy.clients.cache import Cache

from keqa.programs.calls.session import context, within

_OF_A_ROLLOUT = ("rollout_id", "temperature")


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
    with within(kept=kept):
        yield kept


def tell_kept(forget: Callable[[], None]) -> None:
    """Tell the call that is made now, if there is one, how a reply to it can be forgotten."""
    kept = context().kept
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


def rollout_of(lm: Any) -> Any:
    """The rollout that a language model draws; None where it draws none in particular."""
    return (getattr(lm, "kwargs", None) or {}).get("rollout_id")


def is_rollout(lm: Any, own: Any) -> bool:
    """Whether a language model is another one drawing again: the same model with the same settings.

    Args:
        lm: With a rollout of its own.
        own: The one that it may be a copy of.
    """
    if type(lm) is not type(own) or getattr(lm, "model", None) != getattr(own, "model", None):
        return False
    first, second = (
        {name: value for name, value in one.kwargs.items() if name not in _OF_A_ROLLOUT} for one in (lm, own)
    )
    return first == second


def drawn_in(rollout: Any, identity: Any) -> int:
    """The identity of a draw within a rollout.

    Args:
        rollout: The language model's.
        identity: The draw's own; None where it has none.
    """
    key = json.dumps([rollout, identity], default=str)
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest(), "big")
