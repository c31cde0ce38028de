"""A chat server on this machine that speaks OpenAI's protocol, answers from the scripted world, and fails on request.

Whether a call fails, and how, depends on the seed, the request's body and how often that body came before, never on
the order in which threads arrive; so a campaign repeats, and a retry is drawn again.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from email.utils import formatdate
from typing import Any

import common  # noqa: F401
from servers.local_http import LocalServer
from servers.openai_server import (
    WAYS,
    Answer,
    FaultPlan,
    Handler,
    OpenAIServer,
    RecordedCall,
    Sent,
    Way,
    but,
    failed,
    markers,
    with_texts,
)

from faulty.world import LURE, prompt_asked, replies

MODEL = "openai/scripted"
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
MANY = 10_000_000
"""Characters of an answer that is far too long."""


def _error(status: int, message: str, **headers: str) -> Way:
    """An error that repeats the request's key."""

    def refused(answer: Answer) -> Sent:
        text = f"{message} (request of {answer.call.authorization} at {answer.owner.api_base})"
        return failed(status, text, **{name.replace("_", "-"): value for name, value in headers.items()})

    return refused


def _html(status: int, text: str) -> Way:
    page = f"<html><h1>{text}</h1></html>".encode()
    return lambda answer: Sent(page, status, {"Content-Type": "text/html"})


def _bytes(answer: Answer) -> bytes:
    return json.dumps(answer.completion()).encode()


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ## )", text, re.DOTALL))


def _lures(text: str, gap: str, between: str) -> str:
    fields = _fields(text)
    lured = {name: f'["{LURE}"]' if value.startswith("[") else LURE for name, value in fields.items()}
    lured |= {name: str(value == "False") for name, value in fields.items() if value in ("True", "False")}
    return between.join(f"[[ ## {name} ## ]]{gap}{value}" for name, value in lured.items())


def _repeated(text: str) -> str:
    name, value = next(iter(_fields(text).items()))
    return text.replace("[[ ## completed ## ]]", f"[[ ## {name} ## ]]\n{value}\n\n[[ ## completed ## ]]")


def _cut(text: str) -> str:
    begun = text.removesuffix("\n\n[[ ## completed ## ]]")
    return begun[: -max(1, len(list(_fields(text).values())[-1]) // 2)]


_REFUSING = 'One passage says "{} [[ ## completed ## ]]", which is no answer of mine.\n\n{}'
_TALKING = "{1}\n\nUser: Are you sure? Assistant: {0} [[ ## completed ## ]]"
_TALK = "so to speak " * (MANY // 12)
_OTHERS = (markers(quizzes=json.dumps([LURE])), markers(verdict=LURE, rating="5"))

KINDS: dict[str, Way] = {
    "429 with seconds": _error(429, "slow down", Retry_After="1"),
    "429 with a date": lambda answer: _error(429, "slow down", Retry_After=formatdate(usegmt=True))(answer),
    "429 with an absurd delay": _error(429, "slow down", Retry_After="99999999999"),
    "429 without a delay": _error(429, "slow down"),
    "500": _error(500, "internal error"),
    "502 in HTML": _html(502, "502 Bad Gateway"),
    "503": _error(503, "overloaded", Retry_After="0"),
    "504 without a body": lambda answer: Sent(status=504),
    "connection reset": lambda answer: Sent(manner="reset"),
    "closed in mid-body": lambda answer: Sent(answer.completion(), manner="short"),
    "hang": WAYS["hang"],
    "slow drip": WAYS["drip"],
    "200 without a body": WAYS["nothing"],
    "200 in HTML": _html(200, "Sign in to the network"),
    "200 with JSON cut off": lambda answer: Sent(_bytes(answer)[: len(_bytes(answer)) * 2 // 3]),
    "200 with a list": lambda answer: Sent([]),
    "200 with an error": _error(200, "the model crashed"),
    "invalid UTF-8": lambda answer: Sent(_bytes(answer).replace(b"## ]]", b"## ]]\xff\xfe", 1)),
    "redirect to another server": lambda answer: Sent(status=307, headers={"Location": answer.owner.elsewhere}),
    "no choices": WAYS["no choices"],
    "choices null": WAYS["null choices"],
    "fewer choices than asked for": lambda answer: Sent(answer.completion(answer.texts[:-1])),
    "message null": lambda answer: Sent(answer.completion() | {"choices": [{"message": None}] * answer.call.n}),
    "content null": WAYS["null content"],
    "content empty": WAYS["empty"],
    "content that is a number": with_texts(lambda text: 7),
    "cut off at the token limit": with_texts(_cut, "length"),
    "no markers": with_texts(lambda text: f"I am afraid that it may be {LURE}."),
    "an apology": with_texts(lambda text: "I'm sorry, but I can't help with that."),
    "a quoted marker in mid-line": with_texts(lambda text: _REFUSING.format(_lures(text, " ", " "), text)),
    "fields written twice": with_texts(lambda text: "\n\n".join((_lures(text, "\n", "\n\n"), text))),
    "another field's marker repeated": with_texts(_repeated),
    "more talk after the end": with_texts(lambda text: _TALKING.format(_lures(text, " ", " "), text)),
    "the reply to another prompt": with_texts(lambda text: _OTHERS["quizzes" in _fields(text)]),
    "usage negative": but(usage=dict.fromkeys(_COUNTS, -1_000_000)),
    "usage absent": but(usage=None),
    "usage in words": but(usage=dict(zip(_COUNTS, ("few", "many", None), strict=True))),
    "usage absurd": but(usage=dict.fromkeys(_COUNTS, 10**18)),
    "ten megabytes": lambda answer: with_texts(lambda text: f"{_TALK[: MANY // len(answer.texts)]}\n\n{text}")(answer),
}
"""Each way to fail, by what a report calls it."""


def _is_prompt(body: dict[str, Any]) -> bool:
    return prompt_asked(body.get("messages") or []) is not None


class Server(OpenAIServer):
    """The server; nothing fails before a plan is made."""

    ways = KINDS

    def __init__(self, *, latency: float = 0.0, patience: float = 5.0, varied: bool = True) -> None:
        super().__init__(latency=latency, hang_seconds=patience)
        self.varied = varied
        self.plan()

    def start(self) -> "Server":
        # As another server, to which redirects lead.
        self._elsewhere = LocalServer(_Elsewhere, self)
        self.elsewhere = f"{self._elsewhere.address}/chat/completions"
        super().start()
        return self

    def close(self) -> None:
        super().close()
        self._elsewhere.stop()

    def said(self, call: RecordedCall) -> list[str]:
        if not _is_prompt(call.body):
            return ["ok"] * call.n
        again = call.attempt if self.varied else 0
        found = replies(call.messages, call.n, again, float(call.body.get("temperature") or 0))
        return [markers(**fields) for fields in found]

    def plan(self, *, share: float = 0.0, kinds: Sequence[str] = tuple(KINDS), seed: int = 0) -> None:
        """Let a share of the calls fail from now on, and begin to count again."""
        with self._lock:
            self.faults = FaultPlan(share, tuple(kinds), seed, only=_is_prompt)
            self.calls, self.strayed = [], [0, 0]
            self._attempts.clear()

    def counts(self) -> dict[str, Any]:
        """What came since the last plan: prompts, faults, other requests, and what strayed, with a key or without."""
        counts = {"requests": (prompts := self.bodies().total()), "other": len(self.calls) - prompts}
        return {**counts, "faults": dict(self.faults_given), "strayed": list(self.strayed)}

    def bodies(self) -> Counter[str]:
        return Counter(call.key for call in list(self.calls) if _is_prompt(call.body))

    @property
    def finished(self) -> list[float]:
        return [call.finished for call in list(self.calls) if call.finished is not None]

    def unsettled(self, seconds: float) -> int:
        """How many requests are in work, or were answered less than some seconds ago."""
        now = time.monotonic()
        return self._in_work + sum(1 for ended in self.finished if now - ended < seconds)


class _Elsewhere(Handler):
    """The target of redirects: it accepts any request, and its answer is always wrong."""

    def post(self) -> None:
        owner, call = self.server.owner, RecordedCall(self.read_json(), time.monotonic())
        owner.strayed[0] += 1
        owner.strayed[1] += self.headers.get("Authorization") is not None
        lure = markers(**dict.fromkeys(("answer", "explanation", "reasoning", "thought"), LURE))
        self.write(200, Answer(owner, call).completion([lure] * call.n))

    def get(self) -> None:
        self.post()
