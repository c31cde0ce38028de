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
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import common  # noqa: F401
from servers.local_http import LocalHandler, LocalServer

from faulty.kinds import KINDS, Call, Sent, sent, sound
from faulty.world import LURE, replies, signature_of

MODEL = "openai/scripted"
CHAT = "/chat/completions"
BYTES_AT_A_TIME = 40


class Server:
    """The server; use it as a context manager."""

    def __init__(self, *, latency: float = 0.0, patience: float = 5.0, varied: bool = True) -> None:
        """Set up the server without starting it; nothing fails before a plan is made."""
        self.share, self.kinds, self.seed = 0.0, tuple(KINDS), 0
        self.patience, self.latency, self.varied = patience, latency, varied
        self.asked: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.other = 0
        self.strayed = [0, 0]
        self.finished: list[float] = []
        self._attempts: Counter[str] = Counter()
        self._in_work = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._chat: LocalServer
        self._elsewhere: LocalServer

    def __enter__(self) -> Server:
        self._chat, self._elsewhere = LocalServer(_Chat, self), LocalServer(_Elsewhere, self)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._chat.stop()
        self._elsewhere.stop()

    @property
    def api_base(self) -> str:
        """The address to ask."""
        return self._chat.address

    @property
    def elsewhere(self) -> str:
        """The address of the other server."""
        return self._elsewhere.address

    def plan(self, *, share: float = 0.0, kinds: Sequence[str] = tuple(KINDS), seed: int = 0) -> None:
        """Let a share of the calls fail from now on, and begin to count again."""
        if unknown := set(kinds) - set(KINDS):
            raise ValueError(f"unknown faults {sorted(unknown)}; known: {', '.join(KINDS)}")
        with self._lock:
            self.share, self.kinds, self.seed = share, tuple(kinds), seed
            self.asked, self.faults, self._attempts = Counter(), Counter(), Counter()
            self.other, self.strayed, self.finished = 0, [0, 0], []

    def counts(self) -> dict[str, Any]:
        """What came since the last plan."""
        with self._lock:
            return {
                "requests": sum(self.asked.values()),
                "faults": dict(self.faults),
                "other": self.other,
                "strayed": list(self.strayed),
            }

    def bodies(self) -> Counter[str]:
        """How often each prompt came since the last plan, by the hash of its body."""
        with self._lock:
            return Counter(self.asked)

    def unsettled(self, seconds: float) -> int:
        """How many requests are in work, or were answered less than some seconds ago."""
        now = time.monotonic()
        with self._lock:
            return self._in_work + sum(1 for ended in self.finished if now - ended < seconds)

    # What a handler does with a request.

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
            fault = self._drawn(key, came)
            if fault is not None:
                self.faults[fault] += 1
            return fault, came

    def end(self) -> None:
        """Record that a request was answered or dropped."""
        with self._lock:
            self._in_work -= 1
            self.finished.append(time.monotonic())

    def _drawn(self, key: str, came: int) -> str | None:
        digest = hashlib.sha256(f"{self.seed}|{key}|{came}".encode()).digest()
        if not self.kinds or int.from_bytes(digest[:8], "big") / 2**64 >= self.share:
            return None
        return self.kinds[int.from_bytes(digest[8:16], "big") % len(self.kinds)]

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
        if answer.manner in ("reset", "hang"):
            if answer.manner == "hang":
                owner.wait(owner.patience, self.connection)
            self.drop()
            return
        headers = {"Content-Type": answer.kind, **answer.headers}
        if answer.manner == "whole":
            self.write(answer.status, answer.body, headers)
            return
        with suppress(OSError):
            self.wfile.write(self.head(answer.status, len(answer.body), headers))
            if answer.manner == "drip":
                self._drip(answer.body)
            else:
                self.wfile.write(answer.body[: len(answer.body) // 2])
                self.drop()

    def _drip(self, body: bytes) -> None:
        owner = self.server.owner
        pause = owner.patience / max(1, len(body) / BYTES_AT_A_TIME)
        for start in range(0, len(body), BYTES_AT_A_TIME):
            if not owner.wait(pause, self.connection):
                self.drop()
                return
            self.wfile.write(body[start : start + BYTES_AT_A_TIME])
            self.wfile.flush()

    def drop(self) -> None:
        """Close the connection at once, so that the client meets a reset."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


class _Chat(_Handler):
    def get(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            listed = {"object": "list", "data": [{"id": MODEL.partition("/")[2], "object": "model"}]}
            self.send(Sent(body=json.dumps(listed).encode()))
        else:
            self.send(Sent(404))

    def post(self) -> None:
        owner, body = self.server.owner, self.read_json()
        if not self.path.endswith(CHAT):
            self.send(Sent(404))
            return
        fault, came = owner.begin(body)
        try:
            secret = f"{self.headers.get('Authorization')} at {owner.api_base}"
            count = int(body.get("n") or 1)
            try:
                again = came if owner.varied else 0
                said = replies(body.get("messages") or [], count, again, float(body.get("temperature") or 0))
            except LookupError:
                said = [{"answer": "ok"}] * count
            call = Call(body, said, secret, f"{owner.elsewhere}{CHAT}")
            if fault is None and not owner.wait(owner.latency):
                self.drop()
                return
            self.send(sound(call) if fault is None else sent(fault, call))
        finally:
            owner.end()


class _Elsewhere(_Handler):
    """The target of redirects: it accepts any request, and its answer is always wrong."""

    def post(self) -> None:
        owner, body = self.server.owner, self.read_json()
        owner.strayed[0] += 1
        owner.strayed[1] += self.headers.get("Authorization") is not None
        lure = {name: LURE for name in ("answer", "explanation", "reasoning", "thought")}
        self.send(sound(Call(body, [lure] * int(body.get("n") or 1), "", "")))

    def get(self) -> None:
        self.post()
