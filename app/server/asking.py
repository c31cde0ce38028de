"""What the page asks: a question whose story comes as events while it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from keqa.data.question import Question
from keqa.page.story import story_data
from keqa.programs.calls.progress import Progress
from keqa.programs.records import record_without_secrets
from keqa.server.answers import Answers
from keqa.server.chat import ALIVE, event, read_body
from keqa.server.problems import problem_of
from keqa.storage.redaction import without_secrets

KEEP_ALIVE = 10.0
"""Seconds after which a stream says that its question is in work."""


class _Turn(BaseModel):
    question: str
    answer: str | None = None


class PageRequest(BaseModel):
    """What the page sends."""

    question: str
    answer_type: str = "short"
    choices: list[str] = Field(default_factory=list)
    history: list[_Turn] = Field(default_factory=list)

    @classmethod
    def read(cls, body: bytes) -> PageRequest:
        """The request in a body."""
        return read_body(cls, body)

    def checked(self, answers: Answers) -> Question:
        """The question, which can be asked."""
        history = [turn.model_dump() for turn in self.history]
        return answers.check(self.question, self.answer_type, self.choices, history)


async def story_events(answers: Answers, question: Question) -> AsyncIterator[str]:
    """The events of a question, as they happen, and at the end its whole story.

    Each is JSON with ``kind``, the name of its class in `keqa.programs.calls.progress`, its fields, and ``said``, a
    sentence. The last one is of the kind ``Answered`` or ``Failed``, with the record where there is one.
    """
    loop, happened = asyncio.get_running_loop(), asyncio.Queue[Progress]()

    def hears(one: Progress) -> None:
        # It happens in the loop of all questions, which is another one.
        loop.call_soon_threadsafe(happened.put_nowait, one)

    asking = asyncio.create_task(answers.ask(question, hears))
    try:
        yield ALIVE
        while not asking.done() or not happened.empty():
            hearing = asyncio.create_task(happened.get())
            await asyncio.wait([asking, hearing], timeout=KEEP_ALIVE, return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                yield event(_shown(hearing.result(), answers))
            else:
                hearing.cancel()
                if not asking.done():
                    yield ALIVE
        yield event(_end(asking, answers))
    finally:
        asking.cancel()


def _shown(one: Progress, answers: Answers) -> dict[str, Any]:
    shown: dict[str, Any] = without_secrets({"said": str(one), **asdict(one)}, answers.lms)
    return {"kind": type(one).__name__, **shown}


def _end(asking: asyncio.Task[Any], answers: Answers) -> dict[str, Any]:
    try:
        return {"kind": "Answered", **story_data(asking.result())}
    except Exception as error:
        end: dict[str, Any] = {"kind": "Failed", "message": problem_of(error, answers.lms).message}
        record = getattr(error, "record", None)
        return end if record is None else {**end, **story_data(record_without_secrets(record, answers.lms))}
