"""A scriptable OpenAI-compatible chat server on this machine, for tests of faults and for benchmarks of latency.

A fault plan makes a seeded share of the calls fail. Whether a call fails, and how, depends on the seed, the request's
body and how often that same body came before, never on the order in which threads arrive; so a run repeats exactly, and
a retry is drawn again.
"""

import base64
import hashlib
import json
import math
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from servers.local_http import LocalHandler, LocalServer

Reply = Callable[[list[dict[str, Any]], int, dict[str, Any]], Sequence[str]]

FAULTS = ("429", "500", "hang", "close", "empty", "truncated", "markdown")
BODY_FAULTS = ("error body", "no choices", "null choices", "no message", "null content", "html", "nothing", "list")
"""Status 200 with what is no reply."""


_SECTION = re.compile(r"^\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## |\n\nRespond with |\Z)", re.DOTALL | re.MULTILINE)


def markers(**fields: object) -> str:
    """A reply in DSPy's chat format, with one section for each field."""
    sections = [f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items()]
    return "\n\n".join([*sections, "[[ ## completed ## ]]"])


def inputs_of(prompt: str) -> dict[str, str]:
    """The input fields of a prompt in DSPy's chat format, without what asks for the reply."""
    return {name: value.strip() for name, value in _SECTION.findall(prompt)}


@dataclass(frozen=True)
class FaultPlan:
    """Which share of the calls whose body `only` accepts fails, and in which of the ways, each as likely as others."""

    share: float = 0.3
    kinds: Sequence[str] = FAULTS
    seed: int = 0
    only: Callable[[dict[str, Any]], bool] | None = None

    def draw(self, key: str, attempt: int, body: dict[str, Any]) -> str | None:
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
    key: str = ""
    attempt: int = 0

    @property
    def n(self) -> int:
        return int(self.body.get("n") or 1)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages") or [])


@dataclass
class Sent:
    """What the server sends: bytes as they are, anything else as JSON; in another manner than whole where it fails."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    manner: str = "whole"


@dataclass
class Answer:
    """A call, and what would be a sound answer to it."""

    owner: "OpenAIServer"
    call: RecordedCall

    @cached_property
    def texts(self) -> list[str]:
        return self.owner.said(self.call)

    def completion(self, texts: Sequence[Any] | None = None, reason: str = "stop") -> dict[str, Any]:
        """A chat completion; a token is a word, which is good enough for counting."""
        self.call.texts = list(self.texts if texts is None else texts)
        prompt = sum(len(str(message.get("content") or "").split()) for message in self.call.messages)
        written = sum(len(str(text).split()) for text in self.call.texts)
        choices: list[dict[str, Any]] = [
            {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
            for i, text in enumerate(self.call.texts)
        ]
        if self.owner.probability is not None and self.call.body.get("logprobs"):
            for choice in choices:
                choice["logprobs"] = _logprobs(choice["message"]["content"], self.owner.probability)
        usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
        about = {"id": "chatcmpl-scripted", "object": "chat.completion", "created": 0}
        about |= {"model": self.call.body.get("model") or "scripted"}
        return {**about, "choices": choices, "usage": self.owner.usage or usage}


Way = Callable[[Answer], Sent]


def failed(status: int, message: str, code: str | None = None, **headers: str) -> Sent:
    """An error of the server's."""
    return Sent({"error": {"message": message, "type": "error", "code": code}}, status, headers)


def but(**values: Any) -> Way:
    """A sound answer with other values."""
    return lambda answer: Sent(answer.completion() | values)


def with_texts(write: Callable[[str], Any], reason: str = "stop") -> Way:
    """An answer with other texts."""
    return lambda answer: Sent(answer.completion([write(text) for text in answer.texts], reason))


WAYS: dict[str, Way] = {
    "429": lambda answer: failed(429, "a planned 429", **{"Retry-After": answer.owner.retry_after}),
    "500": lambda answer: failed(500, "a planned 500"),
    "503": lambda answer: failed(503, "a planned 503", **{"Retry-After": answer.owner.retry_after}),
    "hang": lambda answer: Sent(manner="hang"),
    "close": lambda answer: Sent(manner="close"),
    "drip": lambda answer: Sent(answer.completion(), manner="drip"),
    "empty": with_texts(lambda text: ""),
    "truncated": with_texts(lambda text: text[: len(text) // 2], "length"),
    "markdown": with_texts(lambda text: f"Here you are:\n```\n{text}\n```"),
    "error body": lambda answer: failed(200, "the backend is away"),
    "no choices": but(choices=[]),
    "null choices": but(choices=None),
    "no message": but(choices=[{"index": 0, "finish_reason": "stop"}]),
    "null content": with_texts(lambda text: None),
    "html": lambda answer: Sent(b"<html>Bad gateway</html>"),
    "nothing": lambda answer: Sent(),
    "list": lambda answer: Sent([1, 2]),
}
"""The ways to fail."""


@dataclass(eq=False)
class OpenAIServer:
    """The server; use it as a context manager, or call `start` and `close`."""

    reply: Reply = lambda messages, n, body: ["ok"] * n
    """Called with (messages, n, body), returns n texts; may raise `HTTPFault`."""
    _: KW_ONLY
    latency: float = 0.0
    """Seconds that every answer takes, in which other requests are served."""
    word_latency: float = 0.0
    """Seconds before each word of a stream."""
    faults: FaultPlan | None = None
    hang_seconds: float = 60.0
    """How long a hanging call stays open before its connection is closed."""
    api_key: str | None = None
    """Where given, requests without it get 401."""
    models: Sequence[str] = ("scripted",)
    """What ``/v1/models`` and Ollama's ``/api/tags`` list."""
    probability: Callable[[str], float] | None = None
    """From a token (a word with the space before it) to its probability, for requests that ask for these."""
    retry_after: str = "0"
    """The header of that name with 429 and 503."""
    usage: dict[str, Any] | None = None
    """What it reports instead of the tokens that it counts."""
    shows_preflight: bool = False
    """Whether the request that a command sends before its first question, for one token, is one like any other."""
    embedding: Callable[[str], Sequence[float]] | None = None
    """From a text to its vector, for ``/v1/embeddings``."""

    calls: list[RecordedCall] = field(default_factory=list, init=False)
    """Every chat request, in order of arrival; `embedded` has those for embeddings."""
    embedded: list[RecordedCall] = field(default_factory=list, init=False)
    peak: int = field(default=0, init=False)
    """The most requests that were in work at once."""
    ways: ClassVar[Mapping[str, Way]] = WAYS
    """The ways to fail that a plan may name."""

    def __post_init__(self) -> None:
        self._in_work = 0
        self._attempts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._http: LocalServer | None = None

    def start(self) -> Self:
        self._http = LocalServer(Handler, self)
        return self

    def close(self) -> None:
        """Stop, hanging calls included."""
        self._closing.set()
        if self._http is not None:
            self._http.stop()
            self._http = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def port(self) -> int:
        assert self._http is not None, "the server is not started"
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_base(self) -> str:
        return f"{self.url}/v1"

    @property
    def count(self) -> int:
        return len(self.calls)

    @property
    def faults_given(self) -> Counter[str]:
        return Counter(call.fault for call in self.calls if call.fault)

    def said(self, call: RecordedCall) -> list[str]:
        return list(self.reply(call.messages, call.n, call.body))

    def open_call(self, body: dict[str, Any], authorization: str | None, kept: list[RecordedCall]) -> RecordedCall:
        """Record a request that arrived, and draw its fault."""
        key = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self._lock:
            attempt = self._attempts[key]
            self._attempts[key] += 1
            self._in_work += 1
            self.peak = max(self.peak, self._in_work)
            call = RecordedCall(body, time.monotonic(), authorization=authorization, key=key, attempt=attempt)
            call.fault = self.faults.draw(key, attempt, body) if self.faults else None
            kept.append(call)
        return call

    def close_call(self, call: RecordedCall) -> None:
        with self._lock:
            call.finished = time.monotonic()
            self._in_work -= 1

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
        self.status, self.code, self.headers = status, code, headers or {}


class Handler(LocalHandler):
    """Answers as the server's owner says."""

    def get(self) -> None:
        models = self.server.owner.models
        if self.path.rstrip("/") == "/v1/models":
            self.write(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in models]})
        elif self.path == "/api/tags":
            self.write(200, {"models": [{"name": name, "model": name} for name in models]})
        else:
            self.send(failed(404, "no such page"))

    def post(self) -> None:
        owner, body = self.server.owner, self.read_json()
        embeds = self.path.endswith("/embeddings") and owner.embedding is not None
        if not embeds and not self.path.endswith("/chat/completions"):
            self.send(failed(404, "no such page"))
            return
        if body.get("max_tokens") == 1 and owner.api_key is None and not owner.shows_preflight:
            self.write(200, Answer(owner, RecordedCall(body, time.monotonic())).completion(["Hello"], "length"))
            return
        call = owner.open_call(body, self.headers.get("Authorization"), owner.embedded if embeds else owner.calls)
        try:
            if owner.api_key is not None and call.authorization != f"Bearer {owner.api_key}":
                sent = failed(401, "Incorrect API key provided.", "invalid_api_key")
            else:
                sent = self._answer(owner, call, embeds)
            call.status = sent.status
            self.send(sent)
        finally:
            owner.close_call(call)

    def _answer(self, owner: "OpenAIServer", call: RecordedCall, embeds: bool) -> Sent:
        answer = Answer(owner, call)
        if call.fault not in ("hang", "close"):
            owner.wait(owner.latency)
        try:
            if call.fault is not None:
                return owner.ways[call.fault](answer)
            if embeds:
                return _embedded(call, owner.embedding)
            sound = answer.completion()
        except HTTPFault as fault:
            return failed(fault.status, str(fault), fault.code, **fault.headers)
        if call.body.get("stream"):
            manner = "words" if owner.word_latency else "whole"
            return Sent(_events(sound), headers={"Content-Type": "text/event-stream"}, manner=manner)
        return Sent(sound)

    def send(self, sent: Sent) -> None:
        """Send an answer in its manner."""
        owner = self.server.owner
        data = sent.body if isinstance(sent.body, bytes) else json.dumps(sent.body).encode()
        if sent.manner == "whole":
            self.write(sent.status, data, sent.headers)
            return
        with suppress(OSError):
            if sent.manner == "hang":
                owner.wait(owner.hang_seconds)
            if sent.manner in ("drip", "short", "words"):
                self.wfile.write(self.head(sent.status, len(data), sent.headers))
            if sent.manner == "short":
                self.wfile.write(data[: len(data) // 2])
            if sent.manner == "words":
                for event in data.split(b"\n\n")[:-1]:
                    owner.wait(owner.word_latency)
                    self.wfile.write(event + b"\n\n")
                return
            if sent.manner == "drip":
                # A byte now and then, for as long as a hanging call stays open.
                for place in range(len(data)):
                    self.wfile.write(data[place : place + 1])
                    owner.wait(owner.hang_seconds / len(data))
                return
        self.close_connection = True
        with suppress(OSError):
            if sent.manner == "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            else:
                self.connection.shutdown(socket.SHUT_RDWR)


def _embedded(call: RecordedCall, embedding: Callable[[str], Sequence[float]]) -> Sent:
    texts = call.body["input"]
    rows: list[Any] = [list(embedding(text)) for text in texts]
    if call.body.get("encoding_format") == "base64":
        rows = [base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode() for row in rows]
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Sent({"object": "list", "model": call.body["model"], "data": data, "usage": usage})


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


def _logprobs(text: str, probability: Callable[[str], float]) -> dict[str, Any]:
    """A choice's log probabilities in OpenAI's layout."""
    tokens = re.findall(r"\s*\S+|\s+", text)
    content = [
        {"token": token, "logprob": math.log(probability(token)), "bytes": None, "top_logprobs": []} for token in tokens
    ]
    return {"content": content, "refusal": None}
