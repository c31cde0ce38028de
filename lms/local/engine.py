"""Causal LMs in this process, behind ``dspy.LM(engine=…, async_engine=…)``.

One worker thread owns the model. Requests from any number of threads or tasks wait in a queue; the worker takes all
that fit, reads their prompts, and draws their texts together, token by token, each with its own settings, by
`keqa.lms.local.decoder` or by vLLM. New requests join while others are being drawn. What draws knows of texts alone;
the worker tells it which were given up, and those who wait what was drawn.
"""

import asyncio
import atexit
import os
import queue
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from dspy import lm15

from keqa.lms.local.tokenizing import Texts, check_request, stop_tokens
from keqa.lms.local.weights import fingerprint, load_model
from keqa.lms.loops import Listener, let_leave, who_listens

if TYPE_CHECKING:
    from keqa.lms.local.decoder import Job

_MAX_TOKENS = 512
"""For requests that do not say."""
_WAIT = 0.003
"""Seconds that an idle worker waits for company after a first request."""
CLOSED = "this local LM was closed"
_shared: dict[tuple[str, str], "LocalEngine"] = {}
_shared_lock = threading.Lock()


class _Telling:
    """Tells the text of tokens that are drawn one by one, each part of it once."""

    def __init__(self, listener: Listener, decode: Callable[[list[int]], str], stops: Sequence[str]) -> None:
        self._listener, self._decode, self._stops, self._sent = listener, decode, stops, 0
        listener(None)

    def __call__(self, drawn: list[int]) -> None:
        """Tell what is new; half a character waits for its other half, and what ends a text is no part of it."""
        text = self._decode(drawn)
        text = text[: min([len(text), *(at for stop in self._stops if (at := text.find(stop)) >= 0)])]
        if len(text) > self._sent and not text.endswith("\N{REPLACEMENT CHARACTER}"):
            self._listener(text[self._sent :])
            self._sent = len(text)


@dataclass(eq=False, slots=True)
class Waiting:
    """A request to a model that waits for its text, and who hears of that while it is drawn."""

    job: "Job"
    model: str
    future: "Future[lm15.Response]"
    tell: Callable[[list[int]], None] | None

    def fail(self, error: Exception) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class LocalEngine(ABC):
    """One model, its tokenizer and the thread that runs them.

    A draw depends on prompt, seed and settings, not on what else is in the batch (`keqa.lms.local.decoder` says
    how, and what floats leave of it). A request without a seed takes one from the operating system.
    """

    repeats = True
    """The same request gets the same reply, so that one which cannot be used may be kept as well."""
    texts: Texts
    context: int | None
    """The most tokens that prompt and reply may have together."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._process = os.getpid()
        loaded: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(loaded,), name=f"lm {Path(path).name}", daemon=True)
        self._thread.start()
        loaded.result()
        atexit.register(self.close)

    @abstractmethod
    def _load(self) -> None:
        """Load the model, in the thread that will run it."""

    @abstractmethod
    def _work(self) -> None:
        """Take requests from the queue and answer them, until the engine is closed."""

    @classmethod
    def shared(cls, path: str) -> Self:
        """The engine of this model in this process, loaded at the first call, and anew where its files are others."""
        real = f"{Path(path).resolve()}@{fingerprint(path)}" if Path(path).exists() else path
        with _shared_lock:
            engine = _shared.get((cls.__qualname__, real))
            if engine is None or engine._closed.is_set() or engine._process != os.getpid():
                engine = _shared[cls.__qualname__, real] = cls(path)
            return cast(Self, engine)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def dump_state(self) -> dict[str, Any]:
        return {"path": self.path}

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> Self:
        return cls.shared(state["path"])

    def complete(self, request: lm15.Request) -> lm15.Response:
        return self.submit(request).result()

    def stream(self, request: lm15.Request) -> Any:
        """The response in one piece, as events, for programs that stream their status."""
        yield from lm15.response_to_events(self.complete(request))

    def submit(self, request: lm15.Request) -> "Future[lm15.Response]":
        """Queue one request; cancelling the future takes it out of its batch."""
        from keqa.lms.local.decoder import DrawSettings, Job

        if self._closed.is_set():
            raise lm15.ConfigurationError(CLOSED)
        if self._process != os.getpid():
            # Its worker stayed behind, and nobody would ever answer.
            raise lm15.ConfigurationError(
                "this local LM was loaded before the process forked: build it in the new process, started by the "
                "method 'spawn' or 'forkserver' (multiprocessing.get_context)"
            )
        check_request(request)
        config = request.config
        tokens, shared = self.texts.encode(request)
        max_tokens = config.max_tokens or _MAX_TOKENS
        if self.context:
            if len(tokens) >= self.context:
                raise lm15.ContextLengthError(
                    f"the prompt has {len(tokens)} tokens and the context of {Path(self.path).name} is {self.context}"
                )
            max_tokens = min(max_tokens, self.context - len(tokens))
        stops = self.texts.stops(request)
        seed = secrets.randbits(53) if config.seed is None else config.seed
        top_p = 1.0 if config.top_p is None else config.top_p
        settings = DrawSettings(
            config.temperature or 0.0, top_p, config.top_k or 0, max_tokens, seed, config.logprobs, stops
        )
        listener = who_listens()
        tell = None if listener is None else _Telling(listener, self.texts.decode, stops)
        waiting = Waiting(Job(tokens, shared, settings, self.texts.ended(stops)), request.model, Future(), tell)
        let_leave(waiting.future)
        self._queue.put(waiting)
        if self._closed.is_set():
            waiting.fail(lm15.ConfigurationError(CLOSED))
        return waiting.future

    def close(self) -> None:
        """Stop the worker; requests under way fail with a configuration error."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
            atexit.unregister(self.close)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=30)

    def _run(self, loaded: "Future[None]") -> None:
        try:
            self._load()
        except BaseException as error:
            loaded.set_exception(error)
            return
        loaded.set_result(None)
        self._work()
        while not self._queue.empty():
            if (waiting := self._queue.get()) is not None:
                waiting.fail(lm15.ConfigurationError(CLOSED))

    def _finish(self, waiting: Waiting) -> None:
        try:
            response = self._response(waiting.model, waiting.job)
        except Exception as error:
            waiting.fail(error)
            return
        with suppress(InvalidStateError):
            waiting.future.set_result(response)

    def _response(self, model: str, job: "Job") -> lm15.Response:
        text = self.texts.decode(job.drawn)
        cuts = [at for stop in job.settings.stops if (at := text.find(stop)) >= 0]
        text = text[: min(cuts)] if cuts else text
        read, drawn = len(job.tokens), len(job.drawn)
        message, usage = lm15.Message.assistant([lm15.TextPart(text)]), lm15.Usage(read, drawn, read + drawn)
        logprobs = self._logprobs(job) if job.settings.logprobs is not None else None
        return lm15.Response(None, model, message, job.reason or "stop", usage, logprobs=logprobs)

    def _logprobs(self, job: "Job") -> tuple[lm15.TokenLogprob, ...]:
        piece, found = self.texts.piece, []
        for token, (score, top) in zip(job.drawn, job.scores, strict=True):
            others = tuple(lm15.TopLogprob(token=piece(one), logprob=value, token_id=one) for one, value in top)
            found.append(lm15.TokenLogprob(token=piece(token), logprob=score, token_id=token, top=others))
        return tuple(found)


class TransformersEngine(LocalEngine):
    """A model of Hugging Face's transformers, or one that is read without them."""

    def __init__(self, path: str, *, max_batch: int = 64, row_bytes: int | None = None) -> None:
        """Load a model; `shared` avoids loading the same one twice.

        So many texts are drawn at once, in so much memory: by default 1.5 GiB, or a third of what an accelerator has
        free. Prompts kept for later may have a quarter as much beside it.
        """
        self._max_batch, self._row_bytes = max_batch, row_bytes
        super().__init__(path)

    def _load(self) -> None:
        tokenizer, model = load_model(self.path)
        self.texts = Texts(tokenizer)
        limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        self.context = int(limit) if limit else None
        import torch

        from keqa.lms.local.decoder import Decoder
        from keqa.lms.local.packing import pack

        pack(model)
        on_cpu = next(model.parameters()).device.type == "cpu"
        row_bytes = self._row_bytes or (3 * 2**29 if on_cpu else int(torch.cuda.mem_get_info()[0]) // 3)
        memory = {"row_bytes": row_bytes, "kept_bytes": row_bytes // 4, "chunk_tokens": 4096 if on_cpu else 32768}
        self.decoder = Decoder(model, stop_tokens(model, tokenizer), max_rows=self._max_batch, **memory)

    def _work(self) -> None:
        import torch

        # Denormal weights make some processors a hundred times slower. Set here, for the worker's threads.
        torch.set_flush_denormal(True)
        running: dict[Job, Waiting] = {}
        held: Waiting | None = None
        while not self._closed.is_set():
            try:
                joining: list[Job] = []
                held = self._collect(running, joining, held)
                if joining:
                    self._hand_over(running, self.decoder.admit(joining))
                given_up = [job for job, waiting in running.items() if waiting.future.cancelled()]
                for job in given_up:
                    del running[job]
                if self.decoder.busy:
                    self._hand_over(running, self.decoder.step(given_up))
            except Exception as error:
                exhausted = isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
                self._give_up(running, lm15.ServerError(f"out of memory: {error}") if exhausted else error)
        closed = lm15.ConfigurationError(CLOSED)
        self._give_up(running, closed)
        if held is not None:
            held.fail(closed)

    def _hand_over(self, running: "dict[Job, Waiting]", ended: "Iterable[Job]") -> None:
        """Tell those who listen what was drawn, and give the responses to those whose texts have ended."""
        for job, waiting in running.items():
            if waiting.tell is not None:
                waiting.tell(job.drawn)
        for job in ended:
            self._finish(running.pop(job))

    def _give_up(self, running: "dict[Job, Waiting]", error: Exception) -> None:
        self.decoder.clear()
        while running:
            running.popitem()[1].fail(error)

    def _collect(self, running: "dict[Job, Waiting]", joining: "list[Job]", held: Waiting | None) -> Waiting | None:
        """Take the requests that fit from the queue; returns the first that did not."""
        with suppress(queue.Empty):
            if held is None:
                held = self._queue.get(block=not self.decoder.busy)
                if not self.decoder.busy:
                    time.sleep(_WAIT)
            while held is not None and self.decoder.room(held.job, joining):
                if not held.future.cancelled():
                    running[held.job] = held
                    joining.append(held.job)
                held = None
                held = self._queue.get_nowait()
        return held


class AsyncEngine:
    """The same engine for coroutines; a cancelled task takes its request out of the batch."""

    _of: type[LocalEngine]

    def __init__(self, engine: LocalEngine) -> None:
        self.engine = engine

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def dump_state(self) -> dict[str, Any]:
        return self.engine.dump_state()

    @classmethod
    def load_state(cls, state: dict[str, Any]) -> Self:
        return cls(cls._of.load_state(state))

    async def complete(self, request: lm15.Request) -> lm15.Response:
        return await asyncio.wrap_future(self.engine.submit(request))

    async def stream(self, request: lm15.Request) -> AsyncIterator[Any]:
        for event in lm15.response_to_events(await self.complete(request)):
            yield event

    async def aclose(self) -> None:
        """Nothing: the engine is shared and closed by its owner."""


class AsyncTransformersEngine(AsyncEngine):
    """For a saved program to name."""

    _of = TransformersEngine
