"""What a question has come to while it is answered: events that a program reports as they happen.

`keqa.programs.program.Program.stream` yields them, and under ``dspy.streamify`` each is a status message.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import dspy

from keqa.lms.loops import Relay
from keqa.programs.calls.session import context, within


@dataclass(frozen=True)
class Progress:
    """Something that happened on the way to an answer; its text is for a person to read."""

    def __str__(self) -> str:
        return type(self).__name__


@dataclass(frozen=True)
class Rewritten(Progress):
    """A follow-up question was made to stand alone.

    Attributes:
        text: The question that is answered.
    """

    text: str

    def __str__(self) -> str:
        return f"Asked as: {self.text}"


@dataclass(frozen=True)
class QuizProgress(Progress):
    """Something that happened to a quiz.

    Attributes:
        index: The quiz's number, from 1; 0 for the question itself, where that is asked after its quizzes.
        text: Resolved; where the quiz is found, as decomposed.
    """

    index: int
    text: str


@dataclass(frozen=True)
class QuizFound(QuizProgress):
    """The question was taken apart, and this is a part of it; in its text ``#1`` stands for the answer to quiz 1.

    Attributes:
        depends_on: The quizzes whose answers it needs.
    """

    depends_on: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"Quiz {self.index}: {self.text}"


@dataclass(frozen=True)
class QuizExamined(QuizProgress):
    """It is known whether the language model knows the answer to a quiz.

    Attributes:
        known: Whether it is taken for known; passages are wanted where not.
        answer: Of its tries, the first of the largest cluster; None where there is none.
        consistency: How much of the tries that cluster holds.
        provisional: Whether the program holds a risk, and may yet withhold the answer to the question.
    """

    known: bool
    answer: str | None
    consistency: float
    provisional: bool = False

    def __str__(self) -> str:
        return f"{_marked('Known', self)}: {self.text} {self.answer}" if self.known else f"Not known: {self.text}"


@dataclass(frozen=True)
class Searching(Progress):
    """The retriever is asked.

    Attributes:
        index: The number of the quiz, or of the search of a method without quizzes; None where it has none.
        query: What is searched for.
    """

    index: int | None
    query: str

    def __str__(self) -> str:
        return f"Searching: {self.query}"


@dataclass(frozen=True)
class PassagesKept(QuizProgress):
    """The passages found for a quiz were judged.

    Attributes:
        found: How many were found.
        kept: The ids of those that are kept.
    """

    found: int
    kept: tuple[str, ...]

    def __str__(self) -> str:
        return f"Kept {len(self.kept)} of {self.found} passages: {self.text}"


@dataclass(frozen=True)
class QuizAnswered(QuizProgress):
    """A quiz has its answer, or has none.

    Attributes:
        answer: None where it has none.
        source: Where the answer came from, as in `QuizRecord`.
        provisional: As of `QuizExamined`.
    """

    answer: str | None
    source: str
    provisional: bool = False

    def __str__(self) -> str:
        return (
            f"No answer: {self.text}"
            if self.answer is None
            else f"{_marked('Answer', self)}: {self.text} {self.answer}"
        )


def _marked(word: str, event: QuizExamined | QuizAnswered) -> str:
    return f"{word} (provisional)" if event.provisional else word


@dataclass(frozen=True)
class Answered(Progress):
    """The question has its answer; nothing follows.

    Attributes:
        prediction: What calling the program would have returned.
    """

    prediction: dspy.Prediction

    def __str__(self) -> str:
        return f"Answered: {self.prediction.answer}"


Hears = Callable[[Progress], None]


def heard_by(hears: Hears) -> AbstractContextManager[None]:
    """Meanwhile somebody hears of each event, in the event loop of the question; what it raises ends the question."""
    return within(hears=(*context().hears, hears))


def streamed(ask: Callable[[], dspy.Prediction]) -> Iterator[Progress]:
    """What happens while a question is asked, as it happens; closed before the end, it ends the question as well."""
    events: queue.SimpleQueue[Progress | BaseException] = queue.SimpleQueue()
    left = threading.Event()

    def hears(event: Progress) -> None:
        if left.is_set():
            raise asyncio.CancelledError
        events.put(event)

    def work() -> None:
        try:
            with heard_by(hears):
                prediction = ask()
            events.put(Answered(prediction))
        except BaseException as error:
            events.put(error)

    own = contextvars.copy_context()

    def read() -> Iterator[Progress]:
        threading.Thread(target=own.run, args=(work,), name="keqa-stream", daemon=True).start()
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


def as_status(relay: Relay | None) -> AbstractContextManager[None]:
    """Meanwhile each event is a status message of a stream."""
    if relay is None:
        return nullcontext()
    from dspy.streaming import StatusMessage

    return heard_by(lambda event: relay.put(StatusMessage(str(event))))
