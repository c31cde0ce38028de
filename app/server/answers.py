"""One program for all who ask at once: slots, time, and what becomes of a question that nobody waits for any more."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY

from keqa.conversations import answered_by
from keqa.data.question import Question
from keqa.errors import InputError, KeqaError, NotInDocumentsError, StageError
from keqa.lms.loops import questions
from keqa.programs.calls.session import Hears, heard_by, within
from keqa.programs.declared import WantedStyle
from keqa.programs.earlier import Findings
from keqa.programs.prediction import Progress
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord, record_without_secrets
from keqa.retrievers import Hit, Retriever, sync_folder
from keqa.retrievers.manifest import LeftOutCounter
from keqa.retrievers.readers import files_of
from keqa.retrievers.watching import WatchedRetriever
from keqa.server.limits import NOT_AGAIN, Metrics, ProblemError, ServerLimits, log, log_fault

MOST_HITS = 50
"""A search gives at most so many passages."""

# DSPy lets each language model and module remember so many calls, by default 10,000 with their prompts.
_HISTORY = 100


@dataclass(frozen=True)
class Asked(Question):
    """A question, and how it is to be answered, where whoever asks says so."""

    style: WantedStyle | None = None


class Answers:
    """Answers questions and searches, within limits; used by one event loop.

    Whoever cancels a call frees its slot at once: requests to a served language model are cancelled with it, and what a
    local one is computing is dropped when it is done.
    """

    def __init__(self, program: Program, retriever: Retriever, lms: Sequence[Any], limits: ServerLimits) -> None:
        """Make the slots; a `WatchedRetriever` is refreshed before each question and search."""
        self._program, self._retriever = program, retriever
        self.lms, self.limits, self.metrics = list(lms), limits, Metrics()
        self._slots = asyncio.Semaphore(limits.in_flight)
        self._waiting = 0

    @property
    def writes(self) -> bool:
        return getattr(self._program, "writing", None) is not None

    def check(
        self,
        question: object,
        answer_type: object = "short",
        choices: object = (),
        history: object = (),
        style: WantedStyle | None = None,
    ) -> Asked:
        asked = Asked.check(question, answer_type, choices, self._program.max_question_chars, history)
        if style not in (None, "auto", "short") and not self.writes:
            message = f"style: this server has no {style}, only short answers, unless it is started with --style auto"
            raise ProblemError(400, message, code="unsupported_parameter", param="style")
        return replace(asked, style=style)

    def refuse_if_full(self) -> None:
        if self._slots.locked() and self._waiting >= self.limits.waiting:
            self.metrics.questions.labels("refused").inc()
            message = "the server has as many questions as it takes; ask again in a few seconds"
            raise ProblemError(503, message, "server_error", "overloaded", headers={"Retry-After": "5"})

    async def ask(
        self, asked: Asked, hears: Hears | None = None, settled: Callable[[str], Findings] | None = None
    ) -> QuestionRecord:
        """Answer a question; `settled` gives, for the digest of what answers, what need not be asked again."""
        self.refuse_if_full()
        started, outcome = time.perf_counter(), "failed"
        try:
            async with self._slot():
                with await self._one_state():
                    record = await self._answered(asked, hears, settled)
            outcome = "answered" if record.unanswered is None else "unanswered"
            return record
        except (ProblemError, asyncio.CancelledError) as error:
            outcome = "timeout" if isinstance(error, ProblemError) else "cancelled"
            raise
        except Exception as error:
            kind = "setting" if isinstance(error, KeqaError) else "fault"
            if isinstance(error, StageError):
                # A stream that has begun has the status of success.
                kind = error.stage
                log.error("no answer: %s in %s", error.cause, kind)
            self.metrics.failures.labels(kind).inc()
            raise
        finally:
            self.metrics.questions.labels(outcome).inc()
            self.metrics.question_seconds.observe(time.perf_counter() - started)

    async def followed(
        self,
        asked: Asked,
        pause: float | None = None,
        ask: Callable[[Hears], Awaitable[QuestionRecord]] | None = None,
    ) -> AsyncGenerator[Progress | asyncio.Future[QuestionRecord] | None, None]:
        """Yield what happens to a question, None after each `pause`, and at last its end; who leaves early ends it."""
        loop, happened = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def hears(one: Progress) -> None:
            # It happens in the loop of all questions, which is another one.
            loop.call_soon_threadsafe(happened.put_nowait, one)

        asking = asyncio.ensure_future(self.ask(asked, hears) if ask is None else ask(hears))
        asking.add_done_callback(happened.put_nowait)
        try:
            one = None
            while one is not asking:
                try:
                    one = await asyncio.wait_for(happened.get(), pause)
                except TimeoutError:
                    one = None
                yield one
        finally:
            asking.cancel()

    async def search(self, query: str, k: int) -> list[Hit]:
        if not 1 <= k <= MOST_HITS:
            raise InputError(f"k must be from 1 to {MOST_HITS}, not {k}")
        text = self.check(query).question
        self.refuse_if_full()
        try:
            async with self._slot():
                with await self._one_state():
                    hits = await asyncio.to_thread(self._retriever.search, text, k)
        except Exception as error:
            if not isinstance(error, ProblemError):
                self.metrics.failures.labels("search").inc()
            raise
        self.metrics.retrievals.inc()
        return hits

    async def _one_state(self) -> AbstractContextManager[None]:
        """Where the index is watched, a context that sees it as it is now, whatever becomes of it meanwhile."""
        watched = self._retriever
        if not isinstance(watched, WatchedRetriever):
            return nullcontext()
        try:
            await asyncio.to_thread(watched.refresh)
        except KeqaError as error:
            log.error("the index cannot be opened as it is now (%s): keqa index info says why", type(error).__name__)
        return watched.one_state()

    async def _answered(
        self, asked: Asked, hears: Hears | None, settled: Callable[[str], Findings] | None
    ) -> QuestionRecord:
        call: dict[str, Any] = {"answer_type": asked.answer_type, "choices": asked.choices}
        if asked.history:
            call["history"] = list(asked.history)
        try:
            # In the loop of all questions: what a program computes between its calls keeps no other request waiting.
            hearing = nullcontext() if hears is None else heard_by(hears)
            findings = {} if settled is None else settled(answered_by(self._program, self._retriever, self.lms))
            wanted = within(findings=findings, style=asked.style)
            with dspy.context(trace=None, max_history_size=_HISTORY), hearing, wanted:
                prediction = await questions.awaited(lambda: self._program.acall(asked.question, **call))
            record = prediction.record
        except NotInDocumentsError as finding:
            record = finding.record
        except StageError as error:
            failed = getattr(error, "record", None)
            if failed is not None:
                self.metrics.add_cost(failed.cost)
            raise
        finally:
            del GLOBAL_HISTORY[:-_HISTORY]
        self.metrics.add_cost(record.cost)
        return record_without_secrets(record, self.lms)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """A place among those in work, for as long as the limit allows."""
        try:
            async with asyncio.timeout(self.limits.timeout) as limit:
                self._waiting += 1
                self.metrics.waiting.inc()
                try:
                    await self._slots.acquire()
                finally:
                    self._waiting -= 1
                    self.metrics.waiting.dec()
                self.metrics.in_work.inc()
                try:
                    yield
                finally:
                    self.metrics.in_work.dec()
                    self._slots.release()
        except TimeoutError as error:
            if not limit.expired():
                raise
            message = f"the question took longer than the {self.limits.timeout:g} seconds that the server allows"
            log.error("no answer: its time was over")
            raise ProblemError(504, message, "server_error", "timeout", headers=NOT_AGAIN) from error


EVERY = 5.0
"""Seconds between two looks at the folder."""


class FolderSync:
    """Brings an index in step with a folder, whenever a file of it is new, changed or gone."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._seen: list[tuple[str, int, int]] | None = None
        self._problem = ""
        # Held by who changes the index, which takes one change at a time.
        self.changing = asyncio.Lock()

    def look(self) -> bool:
        """Look once; files are read only where their names, sizes or times are not those of the last look."""
        # First, so that what changes meanwhile is seen by the next look.
        now = self._listed()
        if now == self._seen:
            return False
        changes = sync_folder(self._address, self._folder, notice=lambda text: None)
        self._seen = now
        return any(change.passages_added or change.passages_removed for change in changes)

    def _listed(self) -> list[tuple[str, int, int]]:
        listed = []
        for path, identifier in files_of(self._folder, LeftOutCounter()):
            # One that is gone by now is missing at the next look.
            with suppress(OSError):
                stat = path.stat()
                listed.append((identifier, stat.st_mtime_ns, stat.st_size))
        return sorted(listed)

    async def keep(self) -> None:
        """Look again and again until this is cancelled. What keeps failing is logged once, without its message."""
        while True:
            problem = ""
            try:
                async with self.changing:
                    if await asyncio.to_thread(self.look):
                        log.info("the index was brought in step with its folder")
            except Exception as error:
                problem = type(error).__name__
                if problem != self._problem and isinstance(error, KeqaError):
                    log.error(
                        "the index cannot be brought in step with its folder (%s): keqa index sync says why", problem
                    )
                elif problem != self._problem:
                    log_fault(error)
            self._problem = problem
            await asyncio.sleep(EVERY)


@asynccontextmanager
async def in_step(sync: FolderSync | None) -> AsyncIterator[None]:
    """Within this context an index follows its folder; where there is none, nothing is done."""
    if sync is None:
        yield
        return
    keeping = asyncio.create_task(sync.keep())
    try:
        yield
    finally:
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
