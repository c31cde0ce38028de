"""Asking from outside: many questions side by side, each ending in an answer or a typed failure, or one as a stream."""

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import dspy

from keqa.data.question import Question, refuse_table
from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError
from keqa.lms.loops import leaving
from keqa.programs.arguments import InFlight, check
from keqa.programs.calls.session import heard_by
from keqa.programs.prediction import Answered, Progress
from keqa.programs.records import QuestionRecord, Unanswered
from keqa.retrievers.documents import id_asked
from keqa.retrievers.text import shown

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Outcome:
    """How one question of a batch ended: its place from 0, what was given, and wall time.

    Without a record it could not be asked at all; where there is no answer, the error says why.
    """

    position: int
    item: Any
    record: QuestionRecord | None
    error: KeqaError | None = None
    seconds: float = 0.0

    @property
    def answer(self) -> str | None:
        """The answer; None exactly where there is an error."""
        return self.record.answer if self.record is not None and self.error is None else None

    @property
    def unanswered(self) -> Unanswered | None:
        """That the documents do not say it, whether this is the answer or the error; None where they do."""
        return None if self.record is None else self.record.unanswered


def answer_many(program: Callable[..., Any], questions: Iterable[Any], in_flight: InFlight) -> Iterator[Outcome]:
    """Answer questions side by side; what is wrong with the arguments themselves is reported at once."""
    check(answer_many, {"in_flight": in_flight}, "answer_many")
    if isinstance(questions, str | bytes | bytearray | Mapping) or not isinstance(questions, Iterable):
        raise InputError(
            f"answer_many takes a list of questions, not {shown(questions)}; one question alone is asked as "
            "program(question)"
        )
    refuse_table(questions, "answer_many")
    return in_parallel(lambda numbered: ask(program, *numbered), enumerate(questions), in_flight)


def ask(program: Callable[..., Any], position: int, item: Any) -> Outcome:
    """Ask one question; without an answer it is an outcome with an error, and what no other would escape is raised."""
    started = time.perf_counter()
    identity = item.get("id") if isinstance(item, Mapping) else getattr(item, "id", None)
    try:
        with id_asked(identity if isinstance(identity, str) else None):
            record, error = program(**Question.arguments(item)).record, None
    except (ConfigurationError, MissingExtraError):
        raise
    except KeqaError as raised:
        record, error = getattr(raised, "record", None), raised
    except Exception as fault:
        named = f"{position + 1} of the batch" if identity is None else repr(identity)
        fault.add_note(f"This was raised while question {named} was asked.")
        raise
    return Outcome(position, item, record, error, time.perf_counter() - started)


def in_parallel(work: Callable[[T], R], items: Iterable[T], in_flight: int) -> Iterator[R]:
    """Work on items side by side, each in a copy of the current context, and yield each result as it comes.

    Once one raises, or at an interrupt, nothing more is begun; what is in work still ends and is yielded before, for it
    is paid for. A second interrupt does not wait for it.
    """
    fatal: BaseException | None = None
    waiting = iter(items)
    # These threads only wait for their question; its calls run in the program's own bounded pool.
    with ThreadPoolExecutor(in_flight, thread_name_prefix="keqa-question") as pool:
        running: set[Future[R]] = set()
        while True:
            if fatal is None:
                try:
                    more = islice(waiting, in_flight - len(running))
                    running.update(pool.submit(contextvars.copy_context().run, work, item) for item in more)
                except Exception as raised:
                    fatal = raised
            if not running:
                break
            try:
                done, running = wait(running, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt as interrupt:
                if fatal is not None:
                    raise
                fatal = interrupt
                continue
            for future in done:
                error = future.exception()
                if error is None:
                    yield future.result()
                else:
                    fatal = fatal or error
    if fatal is not None:
        raise fatal


def streamed(ask: Callable[[], dspy.Prediction]) -> Iterator[Progress]:
    """What happens while a question is asked, as it happens; closed before the end, it ends the question as well."""
    events: queue.SimpleQueue[Progress | BaseException] = queue.SimpleQueue()
    left = threading.Event()

    def hears(event: Progress) -> None:
        if left.is_set():
            raise asyncio.CancelledError
        events.put(event)

    def work(leave: queue.SimpleQueue[Callable[[], None]]) -> None:
        try:
            with leaving() as leaves, heard_by(hears):
                leave.put(leaves)
                prediction = ask()
            events.put(Answered(prediction))
        except BaseException as error:
            events.put(error)

    own = contextvars.copy_context()

    def read() -> Iterator[Progress]:
        leave: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=own.run, args=(work, leave), name="keqa-stream", daemon=True).start()
        try:
            while True:
                event = events.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if isinstance(event, Answered):
                    return
        finally:
            left.set()
            leave.get()()

    return read()


async def astreamed(ask: Callable[[], Awaitable[dspy.Prediction]]) -> AsyncIterator[Progress]:
    """As `streamed`, from within an event loop; a question whose events are not wanted any more is cancelled."""
    events: asyncio.Queue[Progress | None] = asyncio.Queue()

    async def work() -> dspy.Prediction:
        try:
            with heard_by(events.put_nowait):
                return await ask()
        finally:
            events.put_nowait(None)

    task = asyncio.ensure_future(work())
    try:
        while (event := await events.get()) is not None:
            yield event
        yield Answered(await task)
    finally:
        task.cancel()
