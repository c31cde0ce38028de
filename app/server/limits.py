"""How much one server takes on, how fast one client may ask, and what whoever asks learns of a request that fails."""

import ipaddress
import logging
import re
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, StageError
from keqa.programs.records import Cost
from keqa.storage.redaction import without_secrets

_CLIENTS = 10_000
"""So many addresses are remembered; the one that asked longest ago is forgotten first."""


@dataclass(frozen=True)
class ServerLimits:
    """What bounds a server."""

    in_flight: int = 8
    waiting: int = 64
    timeout: float = 300.0
    rate: int = 600
    max_body: int = 1_000_000
    patience: float = 10.0


class RateLimiter:
    """A bucket for each address, which holds a minute's requests and fills up steadily."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str) -> float:
        """Count a request; the seconds to wait before one is within the rate. A network of IPv6 is one client."""
        if not self._rate:
            return 0.0
        client, now, each = _network(address), self._clock(), self._rate / 60
        left, then = self._buckets.pop(client, (float(self._rate), now))
        left = min(float(self._rate), left + (now - then) * each)
        allowed = left >= 1
        self._buckets[client] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / each


def _network(address: str) -> str:
    with suppress(ValueError):
        return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
    return address


_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)


class Metrics:
    """The counters of one server. Labels hold routes, roles and stages, and never what anybody asked."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        of: dict[str, Any] = {"registry": self._registry}
        self.requests = Counter("keqa_http_requests", "HTTP requests", ["method", "path", "status"], **of)
        self.latency = Histogram("keqa_http_request_seconds", "Time of HTTP requests", ["path"], buckets=_SECONDS, **of)
        self.questions = Counter("keqa_questions", "Questions by how they ended", ["outcome"], **of)
        self.question_seconds = Histogram("keqa_question_seconds", "Time of questions", buckets=_SECONDS, **of)
        self.in_work = Gauge("keqa_in_work", "Questions and searches in work", **of)
        self.waiting = Gauge("keqa_waiting", "Questions and searches that wait for their turn", **of)
        self._calls = Counter("keqa_lm_calls", "Requests to language models", ["role", "cached"], **of)
        self._tokens = Counter("keqa_lm_tokens", "Tokens of language models", ["role", "kind"], **of)
        self._failed_calls = Counter("keqa_lm_failures", "Requests without a usable reply", ["role"], **of)
        self.retrievals = Counter("keqa_retrievals", "Searches", **of)
        self.failures = Counter("keqa_failures", "Questions and searches that failed", ["stage"], **of)

    def add_cost(self, cost: Cost) -> None:
        for role, calls in cost.by_role.items():
            self._calls.labels(role, "no").inc(calls.calls)
            self._calls.labels(role, "yes").inc(calls.cached)
            self._failed_calls.labels(role).inc(calls.failed)
            self._tokens.labels(role, "prompt").inc(calls.prompt_tokens)
            self._tokens.labels(role, "completion").inc(calls.completion_tokens)
        self.retrievals.inc(cost.retrievals)

    def page(self) -> bytes:
        return generate_latest(self._registry)


log = logging.getLogger("keqa.server")
"""The server's log. It holds no question, answer, passage, key or message of another server."""

_CAUSE = re.compile(r"([A-Za-z]\w{0,60}): ")


@dataclass(eq=False)
class ProblemError(Exception):
    """Why a request has no answer, in the terms of OpenAI's errors."""

    status: int
    message: str
    kind: str = "invalid_request_error"
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


# OpenAI's client makes a request again where a server fails; this header keeps it from paying for a question twice.
NOT_AGAIN = {"x-should-retry": "false"}
FAULT = ProblemError(500, "the server has a fault; its log says where", "server_error", "fault", headers=NOT_AGAIN)
"""What is told of a fault of the server."""


def problem_of(error: Exception, lms: Sequence[Any]) -> ProblemError:
    """What whoever asked learns about an error; what only the server's operator should know is logged."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, ConfigurationError | MissingExtraError):
        found = _CAUSE.match(str(error))
        log.error("a setting cannot work: %s", found.group(1) if found else type(error).__name__)
        message = "the server cannot ask its language model or index; whoever runs it finds out with keqa ask"
        return ProblemError(502, message, "server_error", "misconfigured", headers=NOT_AGAIN)
    if isinstance(error, InputError):
        return ProblemError(400, str(error))
    if isinstance(error, KeqaError):
        code = "no_answer" if isinstance(error, StageError) else "failed"
        return ProblemError(502, str(without_secrets(str(error), lms)), "server_error", code, headers=NOT_AGAIN)
    if isinstance(error, OSError) and error.strerror:
        # Its path may be named as somebody likes, and where the server has its files is nobody's business.
        log.error("a file or folder of the server cannot be used: %s", error.strerror)
        message = f"the server cannot use a file or folder of its own: {error.strerror}"
        return ProblemError(500, message, "server_error", "storage", headers=NOT_AGAIN)
    log_fault(error)
    return FAULT


def log_fault(error: BaseException) -> None:
    """Log where a fault was raised; its message may quote a question."""
    place = "".join(traceback.format_tb(error.__traceback__))
    log.error("fault: %s at\n%s", type(error).__name__, place)
