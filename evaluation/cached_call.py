"""One call to a language model: whether its answer may be given again, under which key, and how it is kept as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

_FORMAT = "keqa-calls-1"
_REPLIES = ("ModelResponse", "TextCompletionResponse")
# They say how a call is sent, not what is asked; synchronous and awaited calls ask the same.
_NO_MATTER = {"_fn_identifier", "timeout", "num_retries", "headers", "extra_headers"}


def settled(request: dict[str, Any]) -> bool:
    """Whether the same answer may be given again: at temperature 0, or for a sample with an identity."""
    config = (request.get("request") or {}).get("config") or {}
    temperature = request.get("temperature", config.get("temperature"))
    return temperature == 0 or request.get("rollout_id") is not None


def key_of(request: dict[str, Any], ignored: Sequence[str]) -> str:
    """Under what a request's answer is kept; keys and addresses do not matter to it.

    Args:
        request: As DSPy hands it to its cache.
        ignored: Names in it that do not matter, as DSPy gives them.
    """
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


def as_kept(value: Any) -> dict[str, Any] | None:
    """An answer as JSON: DSPy's own record, or the reply of a client library; None where it is neither."""
    if isinstance(value, dict):
        return {"record": value, "usage": value.get("usage") or {}}
    kind = type(value).__name__
    if kind not in _REPLIES:
        return None
    reply = value.model_dump(mode="json")
    return {"reply": reply, "kind": kind, "usage": reply.get("usage") or {}}


def as_dspy_reads(kept: dict[str, Any]) -> Any:
    """What `as_kept` kept as an answer again; its usage is left out, for it was not paid again."""
    if "record" in kept:
        return {**kept["record"], "usage": {}}
    import litellm

    return getattr(litellm, kept["kind"])(**{**kept["reply"], "usage": None})


def is_sound(key: str, kept: Any) -> bool:
    """Whether `as_kept` may have written a value, which may come from elsewhere with the file that it is in.

    Args:
        key: Of the value; those of samples that gates share are looked at where they are read.
        kept: The value.
    """
    if key.startswith("draws:"):
        return isinstance(kept, dict)
    if not isinstance(kept, dict) or not _is_usage(kept.get("usage")):
        return False
    try:
        if kept.keys() == {"record", "usage"}:
            from dspy.clients.call_result import CallResult

            return bool(_texts(CallResult.load(as_dspy_reads(kept)).outputs))
        # Its kind names what is called with the rest.
        return kept.keys() == {"reply", "kind", "usage"} and kept["kind"] in _REPLIES and _replies(as_dspy_reads(kept))
    except Exception:
        # By a record of another shape DSPy and LiteLLM raise errors of any kind.
        return False


def _is_usage(usage: Any) -> bool:
    if not isinstance(usage, dict):
        return False
    counts = (usage.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return all(count is None or (type(count) is int and count >= 0) for count in counts)


def _texts(outputs: Any) -> bool:
    texts = [one.get("text") if isinstance(one, dict) else one for one in outputs]
    return bool(texts) and all(isinstance(text, str) for text in texts)


def _replies(reply: Any) -> bool:
    """Whether a client's reply has a text in each of its choices."""
    choices = [getattr(one, "message", None) or one for one in reply.choices]
    return _texts([getattr(one, "content", getattr(one, "text", None)) for one in choices])
