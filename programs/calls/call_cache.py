"""A cache of calls that the rows of a comparison share, so that none pays for what another has asked.

Cached are calls whose answer is settled: those at temperature 0, and samples, which carry an identity (DSPy's
``rollout_id``) under which each of N samples is a call of its own. Any other call is made each time, so that two
samples never become equal by being one. Answers are kept as JSON in an SQLite file; a kill loses none.
"""

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import dspy

from keqa.programs.calls.session import context, tell_kept
from keqa.storage.files import Closing
from keqa.storage.journal import SqliteStore
from keqa.storage.replies import quiet_litellm

_FORMAT = "keqa-calls-1"
_REPLIES = {name: name for name in ("ModelResponse", "TextCompletionResponse")}
# They say how a call is sent, not what is asked; synchronous and awaited calls ask the same.
_NO_MATTER = {"_fn_identifier", "timeout", "num_retries", "headers", "extra_headers"}
_lock = threading.Lock()
_installed: list[Any] = []
"""DSPy's cache of before, None where it had made none, and what was installed since."""


class CallCache(Closing):
    """Answers of language models by what was asked, in many threads; `dspy.cache` while it is `installed`."""

    def __init__(self, path: Path | str | None) -> None:
        self._file = SqliteStore(path, "calls", "a cache of calls", is_sound)
        self.path = self._file.path

    @contextmanager
    def installed(self) -> Iterator[Self]:
        """Within this context it is DSPy's cache, for all threads of the process, as long as no other is installed."""
        with _lock:
            _installed[:] = [*(_installed or [vars(dspy).get("cache")]), self]
            dspy.cache = self
        try:
            yield self
        finally:
            # Contexts of several threads end in any order.
            with _lock:
                _installed.remove(self)
                if _installed[-1] is None:
                    # DSPy makes its own when it is next read.
                    del dspy.cache
                else:
                    dspy.cache = _installed[-1]
                if len(_installed) == 1:
                    _installed.clear()

    # DSPy's side. A hit reports no usage, so that it is counted as a call answered by a cache; its tokens go to the
    # meter of the call, as they are what the answer takes.

    def get(self, request: dict[str, Any], ignored_args_for_cache_key: Sequence[str] = ()) -> Any:
        """The answer to a request as DSPy reads it, or None."""
        if self.path is None or context().uncached or not _settled(request):
            return None
        key = _key_of(request, ignored_args_for_cache_key)
        kept = self._file.get(key)
        if kept is None:
            return None
        tell_kept(partial(self._file.drop, key))
        replayed = getattr(dspy.settings.usage_tracker, "add_replayed", None)
        if replayed is not None:
            replayed(kept["usage"])
        return _as_dspy_reads(kept)

    def put(
        self,
        request: dict[str, Any],
        value: Any,
        ignored_args_for_cache_key: Sequence[str] = (),
        enable_memory_cache: bool = True,
    ) -> None:
        """Keep the answer to a request, until it turns out to be of no use; see `keqa.programs.calls.ask`."""
        if self.path is not None and _settled(request):
            kept = _as_kept(value)
            if kept is not None:
                key = _key_of(request, ignored_args_for_cache_key)
                self._file.put(key, kept)
                tell_kept(partial(self._file.drop, key))

    def draws(self) -> SqliteStore:
        return self._file

    def close(self) -> None:
        self._file.close()


def _settled(request: dict[str, Any]) -> bool:
    """Whether the same answer may be given again: at temperature 0, or for a sample with an identity."""
    config = (request.get("request") or {}).get("config") or {}
    temperature = request.get("temperature", config.get("temperature"))
    return temperature == 0 or request.get("rollout_id") is not None


def _key_of(request: dict[str, Any], ignored: Sequence[str]) -> str:
    """Under what a request's answer is kept; keys and addresses do not matter to it."""
    asked = {name: value for name, value in request.items() if name not in _NO_MATTER and name not in ignored}
    text = json.dumps([_FORMAT, asked], sort_keys=True, default=_written)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _written(value: Any) -> Any:
    """What JSON has no form for, such as the model class of a structured reply."""
    schema = getattr(value, "model_json_schema", None) if isinstance(value, type) else None
    if schema is not None:
        return schema()
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None and not isinstance(value, type) else repr(value)


def _as_kept(value: Any) -> dict[str, Any] | None:
    """An answer as JSON: DSPy's own record, or the reply of a client library; None where it is neither."""
    if isinstance(value, dict):
        return {"record": value, "usage": value.get("usage") or {}}
    kind = type(value).__name__
    if kind not in _REPLIES:
        return None
    reply = value.model_dump(mode="json")
    return {"reply": reply, "kind": kind, "usage": reply.get("usage") or {}}


def _as_dspy_reads(kept: dict[str, Any]) -> Any:
    """What `_as_kept` kept as an answer again; its usage is left out, for it was not paid again."""
    if "record" in kept:
        return {**kept["record"], "usage": {}}
    # Its kind names what is called with the rest.
    return getattr(quiet_litellm(), _REPLIES[kept["kind"]])(**{**kept["reply"], "usage": None})


def is_sound(key: str, kept: Any) -> bool:
    """Whether `_as_kept` may have written a value; shared samples are looked at where they are read."""
    if key.startswith("draws:"):
        return isinstance(kept, dict)
    try:
        reply = _as_dspy_reads(kept)
        counts = [kept["usage"].get(name) or 0 for name in ("prompt_tokens", "completion_tokens")]
        if "record" in kept:
            from dspy.clients.call_result import CallResult

            texts = [one.get("text") if isinstance(one, dict) else one for one in CallResult.load(reply).outputs]
        else:
            messages = [getattr(one, "message", None) or one for one in reply.choices]
            texts = [getattr(one, "content", getattr(one, "text", None)) for one in messages]
    except Exception:
        # By a record of another shape DSPy and LiteLLM raise errors of any kind.
        return False
    sound = bool(texts) and all(isinstance(text, str) for text in texts)
    return sound and all(type(count) is int and count >= 0 for count in counts)
