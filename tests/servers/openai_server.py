"""A scriptable OpenAI-compatible chat server on this machine, for tests of faults and for benchmarks of latency.

It needs nothing but the standard library::

    with OpenAIServer(reply=lambda messages, n, body: [markers(answer="Paris")] * n, latency=0.05) as server:
        lm = build_lm("openai/scripted", api_base=server.api_base, api_key="any")

A fault plan makes a seeded share of the calls fail. Whether a call fails, and how, depends on the seed, the request's
body and how often that same body came before, never on the order in which threads arrive; so a run repeats exactly, and
a retry is drawn again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from servers.local_http import LocalHandler, LocalServer

Reply = Callable[[list[dict[str, Any]], int, dict[str, Any]], Sequence[str]]

FAULTS = ("429", "500", "hang", "close", "empty", "truncated", "markdown")
TRANSPORT_FAULTS = FAULTS[:4]
TEXT_FAULTS = FAULTS[4:]
BODY_FAULTS = ("error body", "no choices", "null choices", "no message", "null content", "html", "nothing", "list")
"""Status 200 with what is no reply."""
FURTHER_FAULTS = (*BODY_FAULTS, "503", "drip")
"""Others, which a plan names by itself."""


def markers(**fields: object) -> str:
    """A reply in DSPy's chat format, with one section for each field."""
    sections = [f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()]
    return "\n\n".join([*sections, "[[ ## completed ## ]]"])


@dataclass(frozen=True)
class FaultPlan:
    """Which share of the calls fails, and in which of the ways, each as likely as the others.

    Attributes:
        share: From 0 to 1.
        kinds: Some of `FAULTS` and `FURTHER_FAULTS`.
        seed: Another seed lets other calls fail.
        only: Where given, only calls whose body it accepts may fail.
    """

    share: float = 0.3
    kinds: Sequence[str] = FAULTS
    seed: int = 0
    only: Callable[[dict[str, Any]], bool] | None = None

    def __post_init__(self) -> None:
        unknown = set(self.kinds) - set(FAULTS) - set(FURTHER_FAULTS)
        if unknown:
            raise ValueError(f"unknown faults {sorted(unknown)}; known: {(*FAULTS, *FURTHER_FAULTS)}")

    def draw(self, key: str, attempt: int, body: dict[str, Any]) -> str | None:
        """The fault of this call, or None."""
        if not self.kinds or (self.only is not None and not self.only(body)):
            return None
        digest = hashlib.sha256(f"{self.seed}|{key}|{attempt}".encode()).digest()
        if int.from_bytes(digest[:8], "big") / 2**64 >= self.share:
            return None
        return self.kinds[int.from_bytes(digest[8:16], "big") % len(self.kinds)]


@dataclass
class RecordedCall:
    """One chat request as the server met it; times are of `time.monotonic`."""

    body: dict[str, Any]
    started: float
    finished: float | None = None
    fault: str | None = None
    texts: list[str] = field(default_factory=list)
    status: int | None = None
    authorization: str | None = None

    @property
    def n(self) -> int:
        """How many samples the request asked for."""
        return int(self.body.get("n") or 1)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the request."""
        return list(self.body.get("messages") or [])


class OpenAIServer:
    """The server; use it as a context manager, or call `start` and `close`.

    Attributes:
        calls: Every chat request, in order of arrival.
        embedded: Every request for embeddings, in order of arrival.
        peak: The most chat requests that were in work at once.
    """

    def __init__(
        self,
        reply: Reply | None = None,
        *,
        latency: float = 0.0,
        faults: FaultPlan | None = None,
        hang_seconds: float = 60.0,
        api_key: str | None = None,
        models: Sequence[str] = ("scripted",),
        probability: Callable[[str], float] | None = None,
        retry_after: str = "0",
        usage: dict[str, Any] | None = None,
        shows_preflight: bool = False,
        embedding: Callable[[str], Sequence[float]] | None = None,
    ) -> None:
        """Set up the server without starting it.

        Args:
            reply: Called with (messages, n, body), returns n texts; may raise `HTTPFault`. Default: "ok" each time.
            latency: Seconds that every answer takes, in which other requests are served.
            faults: Which calls fail, and how.
            hang_seconds: How long a hanging call stays open before its connection is closed.
            api_key: Where given, requests without it get 401.
            models: What ``/v1/models`` and Ollama's ``/api/tags`` list.
            probability: Where given, requests that ask for log probabilities get them: from a token (a word with the
                space before it) to its probability.
            retry_after: The header of that name with 429 and 503.
            usage: What it reports instead of the tokens that it counts.
            shows_preflight: Whether the request that a command sends before its first question, for one token, is one
                like any other. It is answered by itself otherwise, and is in no count.
            embedding: Where given, ``/v1/embeddings`` answers with it: from a text to its vector.
        """
        self.embedding = embedding
        self.embedded: list[RecordedCall] = []
        self.retry_after, self.usage, self.shows_preflight = retry_after, usage, shows_preflight
        self.probability = probability
        self.reply: Reply = reply or (lambda messages, n, body: ["ok"] * n)
        self.latency = latency
        self.faults = faults
        self.hang_seconds = hang_seconds
        self.api_key = api_key
        self.models = tuple(models)
        self.calls: list[RecordedCall] = []
        self.peak = 0
        self._in_work = 0
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http: LocalServer | None = None

    def start(self) -> OpenAIServer:
        """Listen on a free port of 127.0.0.1."""
        self._http = LocalServer(_Handler, self)
        return self

    def close(self) -> None:
        """Stop, hanging calls included."""
        self._closing.set()
        if self._http is not None:
            self._http.stop()
            self._http = None

    def __enter__(self) -> OpenAIServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._http is not None, "the server is not started"
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_base(self) -> str:
        """The address to give as api_base."""
        return f"{self.url}/v1"

    @property
    def count(self) -> int:
        """How many chat requests arrived."""
        return len(self.calls)

    @property
    def faults_given(self) -> Counter[str]:
        """How often each fault was given."""
        return Counter(call.fault for call in self.calls if call.fault)

    def open_call(self, body: dict[str, Any], authorization: str | None) -> RecordedCall:
        """Record a request that arrived, and draw its fault."""
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._lock:
            attempt = self._attempts[key]
            self._attempts[key] += 1
            self._in_work += 1
            self.peak = max(self.peak, self._in_work)
            call = RecordedCall(body, time.monotonic(), authorization=authorization)
            call.fault = self.faults.draw(key, attempt, body) if self.faults else None
            self.calls.append(call)
        return call

    def open_embedding(self, body: dict[str, Any], authorization: str | None) -> RecordedCall:
        """Record a request for embeddings that arrived, and draw its fault."""
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._lock:
            attempt = self._attempts[key]
            self._attempts[key] += 1
            call = RecordedCall(body, time.monotonic(), authorization=authorization)
            call.fault = self.faults.draw(key, attempt, body) if self.faults else None
            self.embedded.append(call)
        return call

    def close_call(self, call: RecordedCall) -> None:
        """Record that a request was answered or dropped."""
        with self._lock:
            call.finished = time.monotonic()
            self._in_work -= 1

    @property
    def closing(self) -> bool:
        """Whether it is being stopped."""
        return self._closing.is_set()

    def wait(self, seconds: float) -> None:
        """Sleep, but not past the closing of the server."""
        if seconds > 0:
            self._closing.wait(seconds)


class HTTPFault(Exception):  # noqa: N818
    """Raised by a reply function to answer with an HTTP error of its own."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.headers = status, message, code, headers or {}


class _Handler(LocalHandler):
    def get(self) -> None:
        models = self.server.owner.models
        if self.path.rstrip("/") == "/v1/models":
            self.write(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in models]})
        elif self.path == "/api/tags":
            self.write(200, {"models": [{"name": name, "model": name} for name in models]})
        else:
            self._error(404, "no such page")

    def post(self) -> None:
        owner = self.server.owner
        body = self.read_json()
        if self.path.endswith("/embeddings") and owner.embedding is not None:
            self._embed(owner, owner.embedding, body)
            return
        if not self.path.endswith("/chat/completions"):
            self._error(404, "no such page")
            return
        authorization = self.headers.get("Authorization")
        if body.get("max_tokens") == 1 and owner.api_key is None and not owner.shows_preflight:
            self.write(200, _completion(RecordedCall(body, time.monotonic(), texts=["Hello"]), "length"))
            return
        call = owner.open_call(body, authorization)
        try:
            if owner.api_key is not None and authorization != f"Bearer {owner.api_key}":
                call.status = 401
                self._error(401, "Incorrect API key provided.", "invalid_api_key")
            else:
                self._answer(owner, call)
        finally:
            owner.close_call(call)

    def _embed(self, owner: OpenAIServer, embedding: Callable[[str], Sequence[float]], body: dict[str, Any]) -> None:
        call = owner.open_embedding(body, self.headers.get("Authorization"))
        if owner.api_key is not None and call.authorization != f"Bearer {owner.api_key}":
            self._error(401, "Incorrect API key provided.", "invalid_api_key")
        elif call.fault == "close":
            self._drop()
        elif call.fault is not None:
            self._error(int(call.fault), f"a planned {call.fault}", headers={"Retry-After": owner.retry_after})
        else:
            data = [
                {"object": "embedding", "index": place, "embedding": list(embedding(text))}
                for place, text in enumerate(body["input"])
            ]
            tokens = sum(len(text.split()) for text in body["input"])
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            self.write(200, {"object": "list", "model": body["model"], "data": data, "usage": usage})

    def _answer(self, owner: OpenAIServer, call: RecordedCall) -> None:
        if call.fault == "close":
            self._drop()
            return
        if call.fault == "hang":
            owner.wait(owner.hang_seconds)
            self._drop()
            return
        owner.wait(owner.latency)
        if call.fault in ("429", "500", "503"):
            call.status = int(call.fault)
            headers = {} if call.fault == "500" else {"Retry-After": owner.retry_after}
            self._error(call.status, f"a planned {call.fault}", headers=headers)
            return
        try:
            texts = list(owner.reply(call.messages, call.n, call.body))
        except HTTPFault as fault:
            call.status = fault.status
            self._error(fault.status, fault.message, fault.code, fault.headers)
            return
        call.texts, reason = _spoil(texts, call.fault)
        call.status = 200
        sound = _completion(call, reason, owner.probability)
        if owner.usage is not None:
            sound["usage"] = owner.usage
        if call.fault == "drip":
            self._drip(owner, sound)
        elif call.body.get("stream"):
            self.write(200, _events(sound), {"Content-Type": "text/event-stream"})
        else:
            self.write(200, _body(sound, str(call.fault)) if call.fault in BODY_FAULTS else sound)

    def _drip(self, owner: OpenAIServer, body: dict[str, Any]) -> None:
        """A byte now and then, for as long as a hanging call stays open."""
        data = json.dumps(body).encode()
        pause = owner.hang_seconds / len(data)
        with suppress(OSError):
            self.wfile.write(self.head(200, len(data)))
            for place in range(len(data)):
                if owner.closing:
                    break
                self.wfile.write(data[place : place + 1])
                owner.wait(pause)

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _error(self, status: int, message: str, code: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.write(status, {"error": {"message": message, "type": "error", "code": code}}, headers)


def _body(sound: dict[str, Any], fault: str) -> Any:
    """What a fault makes of the body of a sound reply."""
    choice = sound["choices"][0]
    return {
        "error body": {"error": {"message": "the backend is away", "type": "server_error"}},
        "no choices": {**sound, "choices": []},
        "null choices": {**sound, "choices": None},
        "no message": {**sound, "choices": [{"index": 0, "finish_reason": "stop"}]},
        "null content": {**sound, "choices": [{**choice, "message": {"role": "assistant", "content": None}}]},
        "html": b"<html>Bad gateway</html>",
        "nothing": b"",
        "list": [1, 2],
    }[fault]


def _events(sound: dict[str, Any]) -> bytes:
    """A completion as the events of a stream, a word each."""
    head = {name: sound[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    chunks: list[dict[str, Any]] = []
    for choice in sound["choices"]:
        place = {"index": choice["index"]}
        for word in re.findall(r"\s*\S+|\s+", choice["message"]["content"]):
            delta = {"role": "assistant", "content": word}
            chunks.append(head | {"choices": [place | {"delta": delta, "finish_reason": None}]})
        chunks.append(head | {"choices": [place | {"delta": {}, "finish_reason": choice["finish_reason"]}]})
    chunks.append(head | {"choices": [], "usage": sound["usage"]})
    return b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks) + b"data: [DONE]\n\n"


def _spoil(texts: list[str], fault: str | None) -> tuple[list[str], str]:
    """The texts as the fault leaves them, and the reason they ended."""
    if fault == "empty":
        return ["" for _ in texts], "stop"
    if fault == "truncated":
        return [text[: len(text) // 2] for text in texts], "length"
    if fault == "markdown":
        return [f"Here you are:\n```\n{text}\n```" for text in texts], "stop"
    return texts, "stop"


def _logprobs(text: str, probability: Callable[[str], float]) -> dict[str, Any]:
    """A choice's log probabilities in OpenAI's layout."""
    tokens = re.findall(r"\s*\S+|\s+", text)
    content = [
        {"token": token, "logprob": math.log(probability(token)), "bytes": None, "top_logprobs": []} for token in tokens
    ]
    return {"content": content, "refusal": None}


def _completion(call: RecordedCall, reason: str, probability: Callable[[str], float] | None = None) -> dict[str, Any]:
    """A chat completion; a token is a word, which is good enough for counting."""
    prompt = sum(len(str(message.get("content") or "").split()) for message in call.messages)
    written = sum(len(text.split()) for text in call.texts)
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        for i, text in enumerate(call.texts)
    ]
    if probability is not None and call.body.get("logprobs"):
        for choice, text in zip(choices, call.texts, strict=True):
            choice["logprobs"] = _logprobs(text, probability)
    return {
        "id": f"chatcmpl-{id(call):x}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": call.body.get("model") or "scripted",
        "choices": choices,
        "usage": {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written},
    }
