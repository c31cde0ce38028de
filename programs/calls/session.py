"""The question that is answered in this context: what its calls cost, how many run at once, what went wrong.

Stages are written once, as coroutines. Blocking callers have them run in one event loop for all questions
(`keqa.lms.loops.questions`), others in their own. Leaf calls are awaited under a semaphore, or run in threads under the
same one. Only leaf calls occupy the bound, so that any number of quizzes finishes with a bound of 1.
"""

import asyncio
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Generic, Self, TypeVar

import dspy
from dspy.clients.cache import Cache
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from keqa.lms.loops import Relay, questions
from keqa.programs.arguments import Workers, checked
from keqa.programs.calls.errors import CallError
from keqa.programs.declared import WantedStyle
from keqa.programs.records import CallCost, Cost, Degradation, QuizRecord
from keqa.signatures.chat_format import is_completed

T = TypeVar("T")

_MOST_TOKENS = 100_000_000
"""More than any one request takes; what a server reports beyond that is no count."""


class NoCopy(Generic[T]):
    """Holds what copies of a program have in common: a retriever, a gate, language models."""

    def __init__(self, value: T) -> None:
        self.value = value

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@checked
class CallLimiter:
    """How many leaf calls may be in flight, by all questions, copies and stages of a program; a fork begins afresh."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.start_afresh()
        _limiters.add(self)

    def start_afresh(self) -> None:
        """Forget threads: a forked process has its parent's pools without them, and would wait for them forever."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._semaphores: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._semaphores = weakref.WeakKeyDictionary()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return (type(self), (self.workers,))

    def semaphore(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._semaphores.setdefault(loop, asyncio.Semaphore(self.workers))

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking call in a thread, in a copy of the current context (settings, trace, usage, callbacks)."""
        if dspy.settings.send_stream is not None:
            # DSPy streams from AnyIO's threads only; the semaphore bounds how many there are.
            from anyio import CapacityLimiter, to_thread

            return await to_thread.run_sync(function, abandon_on_cancel=True, limiter=CapacityLimiter(1))
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="keqa-call")
            pool = self._pool
        return await asyncio.get_running_loop().run_in_executor(pool, contextvars.copy_context().run, function)


_limiters: weakref.WeakSet[CallLimiter] = weakref.WeakSet()


def _all_afresh() -> None:
    for limiter in list(_limiters):
        limiter.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_afresh)


class CallMeter(UsageTracker):
    """One leaf call, charged to a role and a step: its time, its requests, and its replies with the reason each ended.

    DSPy reports no request for an answer from its cache. Among the calling modules it is told each reply: one that was
    cut off may still parse, and half an answer must not pass for one. With ``disable_history`` DSPy tells none.
    """

    def __init__(self, parent: UsageTracker | None, role: str = "task", step: str = "") -> None:
        """Begin with nothing; `parent` is told all as well, `step` is empty for a search or a call of no program."""
        super().__init__()
        self.parent, self.role, self.step = parent, role, step
        self.seconds = 0.0
        self.failed = False
        self.calls = self.samples = self.prompt = self.completion = 0
        # Of a search that a cache answered, how long it took when it was made.
        self.saved: float | None = None
        self.history: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        # A call that never ran, because the question had failed meanwhile, costs nothing; nor does the wait before.
        current().calls.append(self)
        self.started = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self.started

    @contextmanager
    def heard(self, **settings: Any) -> Iterator[None]:
        """Enter it and have DSPy tell it everything; other settings of DSPy's hold meanwhile as well."""
        callers = [*(dspy.settings.caller_modules or []), self]
        with self, dspy.context(usage_tracker=self, caller_modules=callers, **settings):
            yield

    @property
    def cost(self) -> CallCost:
        """Of a call to a language model; a request that failed without a reply reports no usage, yet it was made."""
        calls = max(self.calls, int(self.failed and not self.history))
        return CallCost(
            calls=calls,
            cached=int(calls == 0),
            samples=max(1, self.samples),
            failed=int(self.failed),
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            seconds=self.seconds,
        )

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        self.calls += 1
        self._add_tokens(usage_entry)
        if self.parent is not None:
            self.parent.add_usage(lm, usage_entry)

    def add_failed(self) -> None:
        """Count a request that was sent and got no reply that reports its usage."""
        self.calls += 1
        if add := getattr(self.parent, "add_failed", None):
            add()

    def add_samples(self, count: int) -> None:
        self.samples += count
        if isinstance(self.parent, CallMeter):
            self.parent.add_samples(count)

    def add_replayed(self, usage_entry: dict[str, Any]) -> None:
        """Count the tokens of a call that a run's cache answers: the answer takes them, whoever has paid for them."""
        self._add_tokens(usage_entry)
        if isinstance(self.parent, CallMeter):
            self.parent.add_replayed(usage_entry)

    def _add_tokens(self, usage_entry: dict[str, Any]) -> None:
        self.prompt += token_count(usage_entry.get("prompt_tokens"))
        self.completion += token_count(usage_entry.get("completion_tokens"))

    @property
    def replies(self) -> list[tuple[str, str | None]]:
        """Each reply with the reason it ended, where that was given."""
        found = []
        for entry in self.history:
            texts = [out.get("text") if isinstance(out, dict) else out for out in entry.get("outputs") or []]
            reasons = _finish_reasons(entry.get("response"))
            found += [(text or "", reason) for text, reason in zip_longest(texts, reasons[: len(texts)])]
        return found

    @property
    def only(self) -> str | None:
        """The reply, where there was one only; it ends with a line break unless it was cut off."""
        if len(self.replies) != 1:
            return None
        text, reason = self.replies[0]
        return text if reason == "length" else f"{text}\n"

    @property
    def truncated(self) -> CallError | None:
        """The error where a reply was cut off; None where none was."""
        message = "the reply, thoughts included, ended at the token limit: --max-tokens (max_tokens=…) sets it"
        return CallError("TruncatedReplyError", message, unusable=True) if any(map(_cut, self.replies)) else None

    def refuse_truncated(self) -> None:
        if (error := self.truncated) is not None:
            raise error

    def spoilt(self, signature: type[dspy.Signature]) -> int:
        """How many replies were cut off or cannot be read; at least one."""
        adapter = dspy.settings.adapter or dspy.ChatAdapter()
        return max(1, sum(_cut(reply) or not _readable(adapter, signature, reply[0]) for reply in self.replies))


def token_count(reported: Any) -> int:
    """A number of tokens that a server reports; 0 for what can be none."""
    return reported if type(reported) is int and 0 <= reported <= _MOST_TOKENS else 0


def _readable(adapter: dspy.Adapter, signature: type[dspy.Signature], text: str) -> bool:
    try:
        return bool(text) and bool(adapter.parse(signature, text))
    except (AdapterParseError, ValueError, RecursionError):
        # DSPy's own adapters let errors of their parsers through.
        return False


def _cut(reply: tuple[str, str | None]) -> bool:
    text, reason = reply
    return reason == "length" and not is_completed(text)


def _finish_reasons(response: Any) -> list[str | None]:
    if isinstance(response, tuple):
        return [getattr(one, "finish_reason", None) for one in response]
    choices = getattr(response, "choices", None)
    if choices is None:
        return [getattr(response, "finish_reason", None)]
    return [
        one.get("finish_reason") if isinstance(one, dict) else getattr(one, "finish_reason", None) for one in choices
    ]


@dataclass(eq=False)
class Session:
    """A question while it is answered: its calls, and what went wrong."""

    bound: CallLimiter
    # Whether predictors are called in threads; those of a served language model are awaited anyway.
    blocking: bool
    # Those of the program by role; None where those of ``dspy.settings`` answer.
    lms: Any = None
    started: float = field(default_factory=time.perf_counter)
    calls: list[CallMeter] = field(default_factory=list)
    degradations: list[Degradation] = field(default_factory=list)
    # Under which name the calls of a predictor are counted, by its `id`; others are counted by role only.
    steps: Mapping[int, str] = field(default_factory=dict)
    # Whether a demonstration of a predictor's own, with this signature, is left out.
    hides: Callable[[Any, type[dspy.Signature]], bool] | None = None
    # Whether the answer to the question may yet be withheld.
    provisional: bool = False
    # What parts of the program called by themselves already, by what was asked.
    made: dict[Hashable, Any] = field(default_factory=dict)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        with within(session=self):
            return await work

    def count_steps(self, predictors: Iterable[tuple[str, dspy.Predict]]) -> None:
        self.steps = {id(predictor): name for name, predictor in predictors}

    def meter(self, predictor: dspy.Predict) -> CallMeter:
        """For a call of a predictor, charged to its role and, where it has a name in the program, its step."""
        role, step = getattr(predictor, "role", "task"), self.steps.get(id(predictor), "")
        return CallMeter(dspy.settings.usage_tracker, role, step)

    def cost(self) -> Cost:
        """Everything so far."""
        calls = list(self.calls)
        asked = [call for call in calls if call.role != "retrieval"]
        searches = [call for call in calls if call.role == "retrieval"]
        # A cache's time is no method's time: a search takes what it took when it was made.
        saved = sum(call.saved or 0.0 for call in searches)

        def total(part: str) -> dict[str, CallCost]:
            names = sorted({getattr(call, part) for call in asked} - {""})
            return {name: sum((one.cost for one in asked if getattr(one, part) == name), CallCost()) for name in names}

        return Cost(
            by_role=total("role"),
            by_step=total("step"),
            retrievals=len(searches),
            retrievals_cached=sum(call.saved is not None for call in searches),
            retrieval_seconds=sum(call.seconds for call in searches) + saved,
            seconds=time.perf_counter() - self.started + saved,
        )


@dataclass(frozen=True)
class Context:
    """What calls in this context belong to."""

    session: Session | None = None
    hears: tuple[Callable[[Any], None], ...] = ()
    """Who hears of the questions that are asked."""
    asked: tuple[str, Sequence[str]] = ("", ())
    """The question, made to stand alone, and its choices, for a utility reference."""
    given: str | None = None
    """The question as it was put, for documents of its own: no file knows how a follow-up is rewritten."""
    left_out: frozenset[str] = frozenset()
    """Ids of questions of which a utility reference shows nothing."""
    kept: list[Callable[[], None]] | None = None
    """How the replies to the call that is made now can be forgotten, as caches report them."""
    uncached: bool = False
    """Whether no cache answers; see `bypass_cache`."""
    own_documents: bool = False
    """Whether somebody's own documents are asked, and nothing is guessed that they do not say."""
    drafts: bool = False
    """Whether what is written here is no answer yet, whatever comes of it."""
    findings: Mapping[Any, QuizRecord] | None = None
    """What earlier questions of a conversation settled; see `keqa.programs.earlier`."""
    style: WantedStyle | None = None
    """How the question is to be answered, whatever the program's setting says; None where that holds."""
    caller: Callable[..., Coroutine[Any, Any, dspy.Prediction]] | None = None
    """Makes calls in the place of `keqa.programs.calls.ask.predict`; told as `nth` how many attempts failed before."""


_context: contextvars.ContextVar[Context] = contextvars.ContextVar("keqa_calls")
_NOTHING = Context()


def context() -> Context:
    return _context.get(_NOTHING)


@contextmanager
def within(**changes: Any) -> Iterator[None]:
    token = _context.set(replace(_context.get(_NOTHING), **changes))
    try:
        yield
    finally:
        _context.reset(token)


def bypass_cache() -> AbstractContextManager[None]:
    """Within this context every call is made, and what it gets takes the place of what was kept.

    A reply that could be used and yet failed its question would be given again.
    """
    _listen_to(dspy.cache)
    return within(uncached=True)


@contextmanager
def keeping(lm: Any) -> Iterator[list[Callable[[], None]]]:
    """Within this context caches report which replies they keep: yields how to forget each that one gave or took."""
    kept: list[Callable[[], None]] = []
    # DSPy makes its cache, with a folder on the disk, when it is first read: one that caches nothing must not cause it.
    if getattr(lm, "cache", False):
        _listen_to(dspy.cache)
    with within(kept=kept):
        yield kept


def tell_kept(forget: Callable[[], None]) -> None:
    """Tell the call that is made now, if there is one, how a reply to it can be forgotten."""
    kept = context().kept
    if kept is not None:
        kept.append(forget)


def _listen_to(cache: Any) -> None:
    """Have DSPy's own cache report what it keeps, and answer nothing within `bypass_cache`.

    It computes a key whenever it looks something up or puts it in.
    """
    if not isinstance(cache, Cache) or "cache_key" in vars(cache):
        return
    key_of, get = cache.cache_key, cache.get

    def cache_key(request: dict[str, Any], ignored_args_for_cache_key: list[str] | None = None) -> str:
        key: str = key_of(request, ignored_args_for_cache_key)
        tell_kept(partial(_forget, cache, key))
        return key

    cache.cache_key = cache_key
    cache.get = lambda *request, **options: None if context().uncached else get(*request, **options)


def _forget(cache: Cache, key: str) -> None:
    with cache._lock:
        cache.memory_cache.pop(key, None)
    if cache.enable_disk_cache:
        cache.disk_cache.delete(key)


def current() -> Session:
    session = _context.get(_NOTHING).session
    assert session is not None, "calls are made within a question"
    return session


def note(stage: str, cause: str, message: str, action: str, quiz: int | None = None, *, harmless: bool = False) -> None:
    current().degradations.append(
        Degradation(stage=stage, quiz=quiz, cause=cause, message=message, action=action, harmless=harmless)
    )


@contextmanager
def noted(stage: str, action: str, quiz: int | None = None, *, of: str = "", harmless: bool = False) -> Iterator[None]:
    """Within it a call that fails ends what is done there, and is recorded; see `note`."""
    try:
        yield
    except CallError as error:
        note(stage, error.cause, error.message + of, action, quiz, harmless=harmless)


def report(event: Any) -> None:
    """Let whoever listens hear what happened."""
    if current().provisional and hasattr(event, "provisional"):
        event = replace(event, **{"provisional": True})
    for hears in _context.get(_NOTHING).hears:
        hears(event)


Hears = Callable[[Any], None]


def heard_by(hears: Hears) -> AbstractContextManager[None]:
    """Meanwhile somebody hears of each event, in the question's event loop; what it raises ends the question."""
    return within(hears=(*context().hears, hears))


def as_status(relay: Relay | None) -> AbstractContextManager[None]:
    """Meanwhile each event is a status message of a stream."""
    if relay is None:
        return nullcontext()
    from dspy.streaming import StatusMessage

    return heard_by(lambda event: relay.put(StatusMessage(str(event))))


async def in_thread(function: Callable[[], T]) -> T:
    """Run what takes its time in a thread of the question's, so that other questions' calls do not wait."""
    return await current().bound.in_thread(function)


async def gather(work: Iterable[Coroutine[Any, Any, T] | asyncio.Task[T]]) -> list[T]:
    """Run coroutines side by side, or wait for all tasks; where one raises, the others are stopped."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        # Where one is not done, another has raised.
        return [task.result() for task in tasks if task.done()]
    finally:
        for task in tasks:
            if not task.cancel() and not task.cancelled():
                # An error that nobody waits for is news of the one that was raised; asyncio would report it as lost.
                task.exception()


run_blocking = questions.run
"""Runs a coroutine, by what makes it, to its end from blocking code, in the event loop of all questions."""
