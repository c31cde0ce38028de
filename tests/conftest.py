"""Fixtures that tests of several rooms share: a scripted language model, a small retriever, clean DSPy settings."""

import asyncio
import gc
import math
import os
import re
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy.clients import execution
from dspy.lm15 import Message, Request, Response, TokenLogprob, Usage
from fixtures.command_line import dead, keqa_command, served, server
from fixtures.files import corpus, own_index, unanswerable_squad, write_json
from fixtures.prompts import PROMPTS, prompt_of
from hypothesis import HealthCheck, settings
from servers import elasticsearch
from servers.openai_server import inputs_of, markers

from keqa.retrievers.base import Hit, Passage

__all__ = ["corpus", "dead", "keqa_command", "own_index", "served", "server", "unanswerable_squad", "write_json"]

# How long an example takes says more of what else the machine does than of the code.
settings.register_profile("keqa", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Fewer drawn examples for `make quick`; `make test` draws all.
settings.register_profile("quick", settings.get_profile("keqa"), max_examples=10)
settings.load_profile("keqa")

# Attempts follow each other at once, unless a server asks to wait.
_wait = execution._delay
execution._delay = lambda error, attempt: 0.01 if getattr(error, "retry_after", None) is None else _wait(error, attempt)

# What tests write needs no disk: to wait for one takes most of the time of a small index. What passes leaves nothing.
_MEMORY, _LEAST_FREE = Path("/dev/shm"), 4 << 30
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _LEAST_FREE:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

Reply = Callable[[str, dict[str, str], Any], Mapping[str, Any] | str]

_FIRST_LINES = {one.instructions.split("\n")[0].strip(): name for name, one in PROMPTS.items()}


class ScriptedEngine:
    """Answers by a function of (signature name, inputs, settings of the request) and remembers what it was asked.

    The function returns output fields, or the whole text of a reply, or raises an error of `dspy.lm15`.
    """

    def __init__(self, reply: Reply, latency: float = 0.0) -> None:
        self.reply, self.latency = reply, latency
        self.calls: list[tuple[str, dict[str, str], Any]] = []
        self.prompts: list[str] = []
        self.peak = self.busy = 0
        self.finish_reason = "stop"
        self.probability: float | None = None
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> "ScriptedEngine":
        return self

    def complete(self, request: Request) -> Response:
        system = str(request.system)
        objective = system.split("your objective is:")[-1].strip()
        name = prompt_of(system) or _FIRST_LINES[objective.split("\n")[0].strip()]
        prompt = request.messages[-1].text or ""
        inputs = inputs_of(prompt)
        with self._lock:
            self.calls.append((name, inputs, request.config))
            self.prompts.append("\n".join(m.text or "" for m in request.messages))
            self.busy += 1
            self.peak = max(self.peak, self.busy)
        try:
            if self.latency:
                time.sleep(self.latency)
            outputs = self.reply(name, inputs, request.config)
        finally:
            with self._lock:
                self.busy -= 1
        if isinstance(outputs, Mapping):
            outputs = markers(**outputs)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(outputs),
            finish_reason=self.finish_reason,
            usage=Usage(input_tokens=10, output_tokens=3, total_tokens=13),
            logprobs=self._logprobs(outputs, request.config),
        )

    def _logprobs(self, text: str, config: Any) -> tuple[TokenLogprob, ...] | None:
        """Every word as likely as `probability` says, where that is set and asked for."""
        if self.probability is None or config.logprobs is None:
            return None
        score = math.log(self.probability)
        return tuple(TokenLogprob(token=token, logprob=score) for token in re.findall(r"\s*\S+", text))

    @property
    def count(self) -> Counter[str]:
        """How often each signature was asked."""
        return Counter(name for name, _, _ in self.calls)

    def asked(self, name: str) -> list[dict[str, str]]:
        """The inputs of each call of a signature."""
        return [inputs for called, inputs, _ in self.calls if called == name]


class SayingEngine:
    """Says what a function makes of a request, and remembers what it was asked."""

    def __init__(self, says: Callable[[Request], str] = lambda request: "") -> None:
        self.says = says
        self.requests: list[Request] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "SayingEngine":
        return self

    @property
    def prompts(self) -> list[str]:
        """All that each request says."""
        return ["\n".join([str(one.system), *(m.text or "" for m in one.messages)]) for one in self.requests]

    def complete(self, request: Request) -> Response:
        self.requests.append(request)
        message, usage = Message.assistant(self.says(request)), Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)


class AsyncScriptedEngine:
    def __init__(self, engine: Any) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> "AsyncScriptedEngine":
        return self

    async def complete(self, request: Request) -> Response:
        return await asyncio.to_thread(self.engine.complete, request)


def over(engine: Any, **further: Any) -> dict[str, Any]:
    """How a language model over an engine is made."""
    usual = {"cache": False, "temperature": 0.0, "max_tokens": 256, "num_retries": 0}
    return {"engine": engine, "async_engine": AsyncScriptedEngine(engine), **usual, **further}


class ScriptedRetriever:
    """Finds the passages listed for a query; by default all, in their order, which count as those of a benchmark."""

    def __init__(
        self, passages: Sequence[Passage], found: Mapping[str, Sequence[int]] | None = None, *, own: bool = False
    ) -> None:
        self.passages, self.found, self.own_documents = list(passages), found, own
        self.queries: list[str] = []
        self.error: Exception | None = None

    def search(self, query: str, k: int = 10) -> list[Hit]:
        self.queries.append(query)
        if self.error is not None:
            raise self.error
        positions = range(len(self.passages)) if self.found is None else self.found.get(query, ())
        return [Hit(self.passages[p], 10.0 - rank) for rank, p in enumerate(positions)][:k]

    def search_many(self, queries: Sequence[str], k: int = 10) -> list[list[Hit]]:
        return [self.search(query, k) for query in queries]

    def __deepcopy__(self, memo: dict[int, Any]) -> "ScriptedRetriever":
        raise AssertionError("a retriever must never be copied with a program")


_DESELECTED = re.compile(r"not \((\w+(?: or \w+)*)\)")
_OF_MODULE = re.compile(r"^pytestmark = (.*?)(?=^\S|\Z)", re.DOTALL | re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave a module alone of which ``-m 'not (…)'`` deselects everything: what it needs is slow to import, too."""
    left_out = _DESELECTED.fullmatch(config.option.markexpr)
    if left_out is None or not collection_path.match("test_*.py"):
        return None
    marks = _OF_MODULE.search(collection_path.read_text(encoding="utf-8"))
    found = re.findall(r"pytest\.mark\.(\w+)", marks[1]) if marks else []
    return True if set(found) & set(left_out[1].split(" or ")) else None


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what is imported by now, which stays: it is most of the memory."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let no garbage be looked for at the end: to pass over all that tests and libraries leave takes seconds."""
    gc.freeze()


_LONGEST = ("test_examples.py", "test_readme.py")
_NEEDED_BY_FIXTURE = {"server": "server", "elasticsearch_url": "server", "engine": "model", "tiny_folder": "model"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by what their fixtures need, and keep those of one cluster in one process, so that one is started.

    What takes longest begins: at the end it would leave the other cores with nothing to do.
    """
    items.sort(key=lambda item: item.path.name not in _LONGEST)
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for fixture, need in _NEEDED_BY_FIXTURE.items():
            if fixture in fixtures:
                item.add_marker(need)
        if "elasticsearch_url" in fixtures:
            item.add_marker(pytest.mark.xdist_group("elasticsearch"))


@pytest.fixture
def scripted() -> Callable[..., tuple[dspy.LM, ScriptedEngine]]:
    """Makes a language model from a function of (signature name, inputs, settings)."""

    def make(reply: Reply, *, latency: float = 0.0, **settings: Any) -> tuple[dspy.LM, ScriptedEngine]:
        engine = ScriptedEngine(reply, latency)
        return dspy.LM(f"scripted/{id(engine)}", **over(engine, **settings)), engine

    return make


@pytest.fixture
def programmed(scripted: Any) -> Callable[..., tuple[Any, ScriptedEngine]]:
    """Has a scripted language model answer a program in all roles; gives the program and the model's engine."""

    def bound(program: Any, reply: Reply, **settings: Any) -> tuple[Any, ScriptedEngine]:
        lm, engine = scripted(reply, **settings)
        program.set_lm(lm)
        return program, engine

    return bound


@pytest.fixture
def retriever() -> Callable[..., ScriptedRetriever]:
    """Makes a retriever from texts, which may be one's own documents."""

    def make(*texts: str, found: Mapping[str, Sequence[int]] | None = None, own: bool = False) -> ScriptedRetriever:
        return ScriptedRetriever([Passage(f"p{i}", "", text) for i, text in enumerate(texts)], found, own=own)

    return make


@pytest.fixture
def memory_cache() -> Iterator[None]:
    """A cache of its own for a test that needs one; all others run without."""
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=True)
    yield
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)


@pytest.fixture(autouse=True, scope="session")
def _no_cache() -> None:
    dspy.configure_cache(enable_disk_cache=False, enable_memory_cache=False)


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing that a test writes has to outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def elasticsearch_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Elasticsearch: the user's own, of which only indexes with a random name are touched, or a test server."""
    if url := os.environ.get("ES_URL"):
        yield url
        return
    if reason := elasticsearch.why_missing():
        pytest.skip(reason)
    cluster = elasticsearch.Cluster(tmp_path_factory.mktemp("elasticsearch"))
    yield cluster.urls[0]
    cluster.stop()


@pytest.fixture
def elasticsearch_address(elasticsearch_url: str) -> Iterator[str]:
    """The address of an index that is not there; whatever a test makes of it is removed."""
    from keqa.retrievers.elasticsearch.client import connect, index_address, parse_address

    address = index_address(elasticsearch_url, f"keqa-test-{uuid.uuid4().hex[:12]}")
    yield address
    target = parse_address(address)
    client = connect(target)
    for name in client.indices.get(index=f"{target.name}*", expand_wildcards="all"):
        client.indices.delete(index=name)
    client.close()
