"""By what a question is settled: an answer from memory alone, one search and its reading, or its quizzes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from keqa.data.question import Question
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import current, report
from keqa.programs.declared import Way
from keqa.programs.gate import Draw
from keqa.programs.prediction import QuizAnswered
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.records import AnswerSource, ClusterRecord, QuizRecord, SampleRecord
from keqa.programs.unanswered import unanswered_of


@dataclass(frozen=True)
class Settling:
    """Settles questions in the way that is set, by what a program has for each.

    Attributes:
        how: The way.
        declines: Whether an answer from memory alone is none.
        draft: Answers a question from memory.
        read: Answers it by one search, with the draft where there is one.
        apart: Answers it by its quizzes, and writes that into its record.
    """

    how: Way
    declines: bool
    draft: Callable[[Question], Awaitable[Draw]]
    read: Callable[[Question, Draw | None], Awaitable[QuizRecord]]
    apart: Callable[[Question, RecordBuilder], Awaitable[None]]

    async def run(self, asked: Question, story: RecordBuilder) -> None:
        """Settle a question, and write that into its record."""
        if self.how == "quizzes":
            await self.apart(asked, story)
            story.settled_by = "quizzes"
        elif self.how == "draft" and not self.declines:
            self._settled(asked, story, await self._drafted(asked), "draft")
        else:
            self._settled(asked, story, await self.read(asked, None), "reading")

    async def _drafted(self, asked: Question) -> QuizRecord:
        try:
            draft = await self.draft(asked)
        except CallError as error:
            raise UnansweredError.at("answer", error) from error
        text = asked.question
        report(QuizAnswered(0, text, draft.text, "memory"))
        found: dict[str, Any] = {"index": 1, "text": text, "resolved": text, "answer": draft.text, "source": "memory"}
        return QuizRecord(**found, abstained=draft.abstained, **_recorded(draft))

    def _settled(self, asked: Question, story: RecordBuilder, record: QuizRecord, way: Way) -> None:
        """Take the answer to the question itself, which is its only quiz then."""
        story.quizzes, story.settled_by = [record.model_copy(update={"index": 1})], way
        conclude(asked, story, record)


def conclude(asked: Question, story: RecordBuilder, record: QuizRecord) -> None:
    """Take the answer to the question itself for the answer, or that the documents do not say it."""
    if record.missing is not None:
        story.unanswered = unanswered_of(asked.question, story.quizzes, record)
        story.answer, story.answer_source = story.unanswered.message, "unanswered"
        return
    if record.answer is None:
        last = current().degradations[-1]
        raise UnansweredError(last.stage, last.cause, last.message)
    story.answer, story.guessed = record.answer, is_guess(record)
    story.answer_source = "fallback" if record is story.fallback else cast(AnswerSource, record.source)


def is_guess(record: QuizRecord) -> bool:
    """Whether an answer rests on no passage, and on a memory that was not found to be sure."""
    return record.source in ("largest_cluster", "closed_book") and not record.known


def _recorded(draft: Draw) -> dict[str, Any]:
    """A draft as the one draw of a quiz that it is."""
    sample = SampleRecord(
        text=draft.text,
        abstained=draft.abstained,
        cluster=None if draft.abstained else 0,
        probability=draft.probability,
    )
    clusters = [] if draft.abstained else [ClusterRecord(answer=str(draft.text), size=1, members=[0])]
    return {"samples": [sample], "clusters": clusters, "tries": 1, "certainty": draft.probability}
