"""How much one server takes on, and how fast one client may ask."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from keqa.programs.records import Cost

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
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((known, 64), strict=False)) if known.version == 6 else address


_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300)


class Metrics:
    """The counters of one server. Labels hold routes, roles and stages, and never what anybody asked."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter("keqa_http_requests", "HTTP requests", ["method", "path", "status"], registry=registry)
        self.latency = Histogram(
            "keqa_http_request_seconds", "Time of HTTP requests", ["path"], buckets=_SECONDS, registry=registry
        )
        self.questions = Counter("keqa_questions", "Questions by how they ended", ["outcome"], registry=registry)
        self.question_seconds = Histogram(
            "keqa_question_seconds", "Time of questions", buckets=_SECONDS, registry=registry
        )
        self.in_work = Gauge("keqa_in_work", "Questions and searches in work", registry=registry)
        self.waiting = Gauge("keqa_waiting", "Questions and searches that wait for their turn", registry=registry)
        self._calls = Counter("keqa_lm_calls", "Requests to language models", ["role", "cached"], registry=registry)
        self._tokens = Counter("keqa_lm_tokens", "Tokens of language models", ["role", "kind"], registry=registry)
        self._failed_calls = Counter("keqa_lm_failures", "Requests without a usable reply", ["role"], registry=registry)
        self._retrievals = Counter("keqa_retrievals", "Searches", registry=registry)
        self._failures = Counter("keqa_failures", "Questions and searches that failed", ["stage"], registry=registry)

    def add_cost(self, cost: Cost) -> None:
        """Count what a question cost."""
        for role, calls in cost.by_role.items():
            self._calls.labels(role, "no").inc(calls.calls)
            self._calls.labels(role, "yes").inc(calls.cached)
            self._failed_calls.labels(role).inc(calls.failed)
            self._tokens.labels(role, "prompt").inc(calls.prompt_tokens)
            self._tokens.labels(role, "completion").inc(calls.completion_tokens)
        self.add_retrievals(cost.retrievals)

    def add_retrievals(self, count: int) -> None:
        """Count searches."""
        self._retrievals.inc(count)

    def add_failure(self, stage: str) -> None:
        """Count a failure of a stage; ``fault`` for a fault in the program."""
        self._failures.labels(stage).inc()

    def page(self) -> bytes:
        """All of it as text."""
        return generate_latest(self._registry)
