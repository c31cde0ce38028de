"""A chat server on this machine that speaks OpenAI's protocol, answers from the scripted world, and fails on request.

Whether a call fails, and how, depends on the seed, the request's body and how often that body came before, never on
the order in which threads arrive; so a campaign repeats, and a retry is drawn again. It runs in a process of its own,
so that its time and memory are not the client's, where it is begun by `common.Beside`.
"""

from __future__ import annotations

import hashlib
import json
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import common  # noqa: F401
from servers.local_http import LocalHandler, LocalServer
from servers.openai_server import markers

from faulty.world import LURE, Fields, replies, signature_of

MODEL = "openai/scripted"
CHAT = "/chat/completions"
BYTES_AT_A_TIME = 40
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
MANY = 10_000_000
"""Characters of an answer that is far too long."""


@dataclass
class Sent:
    """What the server sends; the manner is another than whole where it breaks off or takes its time."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    manner: str = "whole"


@dataclass(frozen=True)
class Call:
    """A request and what would be a sound answer to it."""

    body: Mapping[str, Any]
    replies: Sequence[Fields]
    secret: str = ""
    elsewhere: str = ""

    @property
    def texts(self) -> list[str]:
        """The replies in the format that prompts ask for."""
        return [markers(**fields) for fields in self.replies]

    def completion(self, texts: Sequence[Any], reason: str = "stop") -> dict[str, Any]:
        """An answer with these texts."""
        prompt = sum(len(str(message.get("content") or "").split()) for message in self.body.get("messages") or [])
        written = sum(len(str(text).split()) for text in texts)
        choices = [
            {"index": index, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            for index, text in enumerate(texts)
        ]
        about = {"id": "chatcmpl-scripted", "object": "chat.completion", "created": 0}
        usage = dict(zip(_COUNTS, (prompt, written, prompt + written), strict=True))
        return {**about, "model": self.body.get("model") or "scripted", "choices": choices, "usage": usage}


def sound(call: Call) -> Sent:
    return _json(call.completion(call.texts))


def _json(value: Any, status: int = 200, **headers: str) -> Sent:
    return Sent(status, json.dumps(value).encode(), headers)


def _html(status: int, said: str) -> Sent:
    return Sent(status, f"<html><h1>{said}</h1></html>".encode(), {"Content-Type": "text/html"})


def _error(call: Call, status: int, message: str, wait: str | None = None) -> Sent:
    error = {"error": {"message": f"{message} (request of {call.secret})", "type": "server_error", "code": None}}
    return _json(error, status, **({} if wait is None else {"Retry-After": wait}))


def _but(**values: Any) -> Callable[[Call], Sent]:
    return lambda call: _json(call.completion(call.texts) | values)


def _without_message(call: Call) -> Sent:
    value = call.completion(call.texts)
    return _json(value | {"choices": [{**choice, "message": None} for choice in value["choices"]]})


def _with_texts(write: Callable[[Fields], Any], reason: str = "stop") -> Callable[[Call], Sent]:
    return lambda call: _json(call.completion([write(fields) for fields in call.replies], reason))


def _lures(fields: Fields, gap: str, between: str) -> str:
    lured = {name: f'["{LURE}"]' if value.startswith("[") else LURE for name, value in fields.items()}
    lured |= {name: str(value == "False") for name, value in fields.items() if value in ("True", "False")}
    return between.join(f"[[ ## {name} ## ]]{gap}{value}" for name, value in lured.items())


def _quoted(fields: Fields) -> str:
    """A passage is quoted in mid-line, with its markers, and refused."""
    quoted = f'"{_lures(fields, " ", " ")} [[ ## completed ## ]]"'
    return f"One passage says {quoted}, which is no answer of mine.\n\n{markers(**fields)}"


def _corrected(fields: Fields) -> str:
    """All fields are written, and then again, rightly."""
    first = _lures(fields, "\n", "\n\n")
    return f"{first}\n\n{markers(**fields)}"


def _repeated(fields: Fields) -> str:
    """After the last field the first comes again, with nothing new."""
    name, value = next(iter(fields.items()))
    return markers(**fields).replace("[[ ## completed ## ]]", f"[[ ## {name} ## ]]\n{value}\n\n[[ ## completed ## ]]")


def _rambling(fields: Fields) -> str:
    """After the end of the reply a dialogue follows, with markers in the middle of lines."""
    quoted = _lures(fields, " ", " ")
    return f"{markers(**fields)}\n\nUser: Are you sure? Assistant: {quoted} [[ ## completed ## ]]"


def _cut(fields: Fields) -> str:
    text = markers(**fields).removesuffix("\n\n[[ ## completed ## ]]")
    return text[: -max(1, len(next(reversed(fields.values()))) // 2)]


def _of_another_prompt(fields: Fields) -> str:
    """The reply to another call, which asked for other fields."""
    return markers(verdict=LURE, rating="5") if "quizzes" in fields else markers(quizzes=json.dumps([LURE]))


def _endless(call: Call) -> Sent:
    talk = "so to speak " * (MANY // 12 // len(call.replies))
    return _json(call.completion([f"{talk}\n\n{text}" for text in call.texts]))


KINDS: dict[str, Callable[[Call], Sent]] = {
    "429 with seconds": lambda call: _error(call, 429, "slow down", "1"),
    "429 with a date": lambda call: _error(call, 429, "slow down", formatdate(usegmt=True)),
    "429 with an absurd delay": lambda call: _error(call, 429, "slow down", "99999999999"),
    "429 without a delay": lambda call: _error(call, 429, "slow down"),
    "500": lambda call: _error(call, 500, "internal error"),
    "502 in HTML": lambda call: _html(502, "502 Bad Gateway"),
    "503": lambda call: _error(call, 503, "overloaded", "0"),
    "504 without a body": lambda call: Sent(504),
    "connection reset": lambda call: Sent(manner="reset"),
    "closed in mid-body": lambda call: Sent(body=sound(call).body, manner="short"),
    "hang": lambda call: Sent(manner="hang"),
    "slow drip": lambda call: Sent(body=sound(call).body, manner="drip"),
    "200 without a body": lambda call: Sent(),
    "200 in HTML": lambda call: _html(200, "Sign in to the network"),
    "200 with JSON cut off": lambda call: Sent(body=sound(call).body[: len(sound(call).body) * 2 // 3]),
    "200 with a list": lambda call: _json([]),
    "200 with an error": lambda call: _error(call, 200, "the model crashed"),
    "invalid UTF-8": lambda call: Sent(body=sound(call).body.replace(b"## ]]", b"## ]]\xff\xfe", 1)),
    "redirect to another server": lambda call: Sent(307, headers={"Location": call.elsewhere}),
    "no choices": _but(choices=[]),
    "choices null": _but(choices=None),
    "fewer choices than asked for": lambda call: _json(call.completion(call.texts[:-1])),
    "message null": _without_message,
    "content null": _with_texts(lambda fields: None),
    "content empty": _with_texts(lambda fields: ""),
    "content that is a number": _with_texts(lambda fields: 7),
    "cut off at the token limit": _with_texts(_cut, "length"),
    "no markers": _with_texts(lambda fields: f"I am afraid that it may be {LURE}."),
    "an apology": _with_texts(lambda fields: "I'm sorry, but I can't help with that."),
    "a quoted marker in mid-line": _with_texts(_quoted),
    "fields written twice": _with_texts(_corrected),
    "another field's marker repeated": _with_texts(_repeated),
    "more talk after the end": _with_texts(_rambling),
    "the reply to another prompt": _with_texts(_of_another_prompt),
    "usage negative": _but(usage=dict.fromkeys(_COUNTS, -1_000_000)),
    "usage absent": _but(usage=None),
    "usage in words": _but(usage=dict(zip(_COUNTS, ("few", "many", None), strict=True))),
    "usage absurd": _but(usage=dict.fromkeys(_COUNTS, 10**18)),
    "ten megabytes": _endless,
}
"""Each way to fail, by what a report calls it."""


class Server:
    """The server; use it as a context manager. Nothing fails before a plan is made."""

    def __init__(self, *, latency: float = 0.0, patience: float = 5.0, varied: bool = True) -> None:
        self.patience, self.latency, self.varied = patience, latency, varied
        self._in_work = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.plan()

    def __enter__(self) -> Server:
        self._chat, self._elsewhere = LocalServer(_Chat, self), LocalServer(_Elsewhere, self)
        self.api_base, self.elsewhere = self._chat.address, self._elsewhere.address
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._chat.stop()
        self._elsewhere.stop()

    def plan(self, *, share: float = 0.0, kinds: Sequence[str] = tuple(KINDS), seed: int = 0) -> None:
        """Let a share of the calls fail from now on, and begin to count again."""
        with self._lock:
            self.share, self.kinds, self.seed = share, tuple(kinds), seed
            # By the hash of a prompt, by the way of failing, and by the hash of any request.
            self.asked: Counter[str] = Counter()
            self.faults: Counter[str] = Counter()
            self._attempts: Counter[str] = Counter()
            # Requests that are no prompt, those that came to the other server and had a key there, and when each ended.
            self.other, self.strayed = 0, [0, 0]
            self.finished: list[float] = []

    def counts(self) -> dict[str, Any]:
        """What came since the last plan."""
        with self._lock:
            counts = {"requests": self.asked.total(), "faults": dict(self.faults)}
            return {**counts, "other": self.other, "strayed": list(self.strayed)}

    def bodies(self) -> Counter[str]:
        """How often each prompt came since the last plan, by the hash of its body."""
        with self._lock:
            return Counter(self.asked)

    def unsettled(self, seconds: float) -> int:
        """How many requests are in work, or were answered less than some seconds ago."""
        now = time.monotonic()
        with self._lock:
            return self._in_work + sum(1 for ended in self.finished if now - ended < seconds)

    def begin(self, body: dict[str, Any]) -> tuple[str | None, int]:
        """Record a request; its fault, and how often the same came before."""
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._lock:
            came = self._attempts[key]
            self._attempts[key] += 1
            self._in_work += 1
            if signature_of(body.get("messages") or []) is None:
                self.other += 1
                return None, came
            self.asked[key] += 1
            digest = hashlib.sha256(f"{self.seed}|{key}|{came}".encode()).digest()
            if int.from_bytes(digest[:8], "big") / 2**64 >= self.share:
                return None, came
            fault = self.kinds[int.from_bytes(digest[8:16], "big") % len(self.kinds)]
            self.faults[fault] += 1
            return fault, came

    def end(self) -> None:
        """Record that a request was answered or dropped."""
        with self._lock:
            self._in_work -= 1
            self.finished.append(time.monotonic())

    def wait(self, seconds: float, connection: socket.socket | None = None) -> bool:
        """Sleep until the time is over, the server closes or the client has left; whether the time is over."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._closing.wait(0 if connection is not None else left):
                return False
            if connection is not None and select.select([connection], [], [], min(left, 0.2))[0]:
                return False
        return True


class _Handler(LocalHandler):
    def send(self, answer: Sent) -> None:
        owner = self.server.owner
        if answer.manner == "whole":
            self.write(answer.status, answer.body, answer.headers)
            return
        if answer.manner == "hang":
            owner.wait(owner.patience, self.connection)
        elif answer.manner != "reset":
            whole, drips = answer.body, answer.manner == "drip"
            size = BYTES_AT_A_TIME if drips else len(whole) // 2
            starts = range(0, len(whole), size) if drips else (0,)
            with suppress(OSError):
                self.wfile.write(self.head(answer.status, len(whole), answer.headers))
                if all(self._part(whole[start : start + size], drips and len(starts)) for start in starts) and drips:
                    return
        self.drop()

    def _part(self, part: bytes, of: int) -> bool:
        """Send one of so many parts that take as long as the server's patience; whether the client is there."""
        owner = self.server.owner
        if of and not owner.wait(owner.patience / of, self.connection):
            return False
        self.wfile.write(part)
        self.wfile.flush()
        return True

    def drop(self) -> None:
        """Close the connection at once, so that the client meets a reset."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class _Chat(_Handler):
    def get(self) -> None:
        listed = {"object": "list", "data": [{"id": MODEL.partition("/")[2], "object": "model"}]}
        self.send(_json(listed) if self.path.rstrip("/").endswith("/models") else Sent(404))

    def post(self) -> None:
        owner, body = self.server.owner, self.read_json()
        if not self.path.endswith(CHAT):
            self.send(Sent(404))
            return
        fault, came = owner.begin(body)
        try:
            secret = f"{self.headers.get('Authorization')} at {owner.api_base}"
            count, again = int(body.get("n") or 1), came if owner.varied else 0
            try:
                said = replies(body.get("messages") or [], count, again, float(body.get("temperature") or 0))
            except LookupError:
                said = [{"answer": "ok"}] * count
            call = Call(body, said, secret, f"{owner.elsewhere}{CHAT}")
            if fault is None and not owner.wait(owner.latency):
                self.drop()
                return
            self.send(KINDS[fault](call) if fault else sound(call))
        finally:
            owner.end()


class _Elsewhere(_Handler):
    """The target of redirects: it accepts any request, and its answer is always wrong."""

    def post(self) -> None:
        owner, body = self.server.owner, self.read_json()
        owner.strayed[0] += 1
        owner.strayed[1] += self.headers.get("Authorization") is not None
        lure = {name: LURE for name in ("answer", "explanation", "reasoning", "thought")}
        self.send(sound(Call(body, [lure] * int(body.get("n") or 1))))

    def get(self) -> None:
        self.post()
