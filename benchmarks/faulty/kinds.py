"""The ways in which a call fails: what goes over the wire instead of a sound reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

from faulty.world import LURE, Fields

MANY = 10_000_000
"""Characters of an answer that is far too long."""


@dataclass
class Sent:
    """What the server sends."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    manner: str = "whole"


@dataclass(frozen=True)
class Call:
    """A request and what would be a sound answer to it."""

    body: Mapping[str, Any]
    replies: Sequence[Fields]
    secret: str
    elsewhere: str


def markers(fields: Fields) -> str:
    """A reply in the format that prompts ask for."""
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()), "[[ ## completed ## ]]"])


def completion(call: Call, texts: Sequence[Any], reason: str = "stop") -> dict[str, Any]:
    prompt = sum(len(str(message.get("content") or "").split()) for message in call.body.get("messages") or [])
    written = sum(len(str(text).split()) for text in texts)
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": call.body.get("model") or "scripted",
        "choices": [
            {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            for index, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
    }


def sound(call: Call) -> Sent:
    return _json(completion(call, _texts(call)))


def sent(kind: str, call: Call) -> Sent:
    return KINDS[kind](call)


def _texts(call: Call) -> list[str]:
    return [markers(fields) for fields in call.replies]


def _json(value: Any, status: int = 200, **headers: str) -> Sent:
    return Sent(status, json.dumps(value).encode(), headers)


def _error(call: Call, status: int, message: str, **headers: str) -> Sent:
    error = {"error": {"message": f"{message} (request of {call.secret})", "type": "server_error", "code": None}}
    return _json(error, status, **headers)


def _changed(call: Call, change: Callable[[dict[str, Any]], None]) -> Sent:
    value = completion(call, _texts(call))
    change(value)
    return _json(value)


def _with_texts(write: Callable[[Fields], Any], reason: str = "stop") -> Callable[[Call], Sent]:
    return lambda call: _json(completion(call, [write(fields) for fields in call.replies], reason))


def _usage(value: Any) -> Callable[[Call], Sent]:
    return lambda call: _changed(call, lambda reply: reply.update(usage=value))


def _first_choice(**values: Any) -> Callable[[Call], Sent]:
    def change(reply: dict[str, Any]) -> None:
        for choice in reply["choices"]:
            choice.update(values)

    return lambda call: _changed(call, change)


def _content(value: Any) -> Callable[[Call], Sent]:
    return _with_texts(lambda fields: value)


def _fewer(call: Call) -> Sent:
    texts = _texts(call)
    return _json(completion(call, texts[: max(1, len(texts) - 1)] if len(texts) > 1 else []))


def _lure(name: str, value: str) -> str:
    return {"True": "False", "False": "True"}.get(value, f'["{LURE}"]' if value.startswith("[") else LURE)


def _lures(fields: Fields) -> Fields:
    return {name: _lure(name, value) for name, value in fields.items()}


def _quoted(fields: Fields) -> str:
    """A passage is quoted in mid-line, with its markers, and refused."""
    quoted = " ".join(f"[[ ## {name} ## ]] {value}" for name, value in _lures(fields).items())
    return f'One passage says "{quoted} [[ ## completed ## ]]", which is no answer of mine.\n\n{markers(fields)}'


def _corrected(fields: Fields) -> str:
    """All fields are written, and then again, rightly."""
    first = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in _lures(fields).items())
    return f"{first}\n\n{markers(fields)}"


def _repeated(fields: Fields) -> str:
    """After the last field the first comes again, with nothing new."""
    name, value = next(iter(fields.items()))
    return markers(fields).replace("[[ ## completed ## ]]", f"[[ ## {name} ## ]]\n{value}\n\n[[ ## completed ## ]]")


def _rambling(fields: Fields) -> str:
    """After the end of the reply a dialogue follows, with markers in the middle of lines."""
    quoted = " ".join(f"[[ ## {name} ## ]] {value}" for name, value in _lures(fields).items())
    return f"{markers(fields)}\n\nUser: Are you sure? Assistant: {quoted} [[ ## completed ## ]]"


def _cut(fields: Fields) -> str:
    text = markers(fields).removesuffix("\n\n[[ ## completed ## ]]")
    return text[: -max(1, len(next(reversed(fields.values()))) // 2)]


def _of_another_prompt(fields: Fields) -> str:
    """The reply to another call, which asked for other fields."""
    return markers({"verdict": LURE, "rating": "5"} if "quizzes" in fields else {"quizzes": json.dumps([LURE])})


def _endless(call: Call) -> Sent:
    talk = "so to speak " * (MANY // 12 // len(call.replies))
    return _json(completion(call, [f"{talk}\n\n{text}" for text in _texts(call)]))


def _surrogate(call: Call) -> Sent:
    answer = sound(call)
    return Sent(200, answer.body.replace(b"## ]]", b"## ]]\xff\xfe", 1))


KINDS: dict[str, Callable[[Call], Sent]] = {
    "429 with seconds": lambda call: _error(call, 429, "slow down", **{"Retry-After": "1"}),
    "429 with a date": lambda call: _error(call, 429, "slow down", **{"Retry-After": formatdate(usegmt=True)}),
    "429 with an absurd delay": lambda call: _error(call, 429, "slow down", **{"Retry-After": "99999999999"}),
    "429 without a delay": lambda call: _error(call, 429, "slow down"),
    "500": lambda call: _error(call, 500, "internal error"),
    "502 in HTML": lambda call: Sent(502, b"<html><h1>502 Bad Gateway</h1></html>", kind="text/html"),
    "503": lambda call: _error(call, 503, "overloaded", **{"Retry-After": "0"}),
    "504 without a body": lambda call: Sent(504),
    "connection reset": lambda call: Sent(manner="reset"),
    "closed in mid-body": lambda call: Sent(body=sound(call).body, manner="short"),
    "hang": lambda call: Sent(manner="hang"),
    "slow drip": lambda call: Sent(body=sound(call).body, manner="drip"),
    "200 without a body": lambda call: Sent(),
    "200 in HTML": lambda call: Sent(body=b"<html><h1>Sign in to the network</h1></html>", kind="text/html"),
    "200 with JSON cut off": lambda call: Sent(body=sound(call).body[: len(sound(call).body) * 2 // 3]),
    "200 with a list": lambda call: _json([]),
    "200 with an error": lambda call: _error(call, 200, "the model crashed"),
    "invalid UTF-8": _surrogate,
    "redirect to another server": lambda call: Sent(307, headers={"Location": call.elsewhere}),
    "no choices": lambda call: _changed(call, lambda reply: reply.update(choices=[])),
    "choices null": lambda call: _changed(call, lambda reply: reply.update(choices=None)),
    "fewer choices than asked for": _fewer,
    "message null": _first_choice(message=None),
    "content null": _content(None),
    "content empty": _content(""),
    "content that is a number": _content(7),
    "cut off at the token limit": _with_texts(_cut, "length"),
    "no markers": _with_texts(lambda fields: f"I am afraid that it may be {LURE}."),
    "an apology": _with_texts(lambda fields: "I'm sorry, but I can't help with that."),
    "a quoted marker in mid-line": _with_texts(_quoted),
    "fields written twice": _with_texts(_corrected),
    "another field's marker repeated": _with_texts(_repeated),
    "more talk after the end": _with_texts(_rambling),
    "the reply to another prompt": _with_texts(_of_another_prompt),
    "usage negative": _usage(dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), -1_000_000)),
    "usage absent": _usage(None),
    "usage in words": _usage({"prompt_tokens": "few", "completion_tokens": "many", "total_tokens": None}),
    "usage absurd": _usage(dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 10**18)),
    "ten megabytes": _endless,
}
"""Each way to fail, by what a report calls it."""
