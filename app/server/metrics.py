"""What a server counts, in the form that Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from keqa.programs.records import Cost

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
