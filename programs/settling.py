"""By what a question is settled: an answer from memory alone, one search and its reading, or its quizzes.

KEQA's idea one level up: is the whole question known, does one search settle it, or has it to be taken apart? A chooser
says so (`keqa.programs.boundary.chooser`); without one, a question is taken apart where one reading does not answer it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from keqa.data.question import Question
from keqa.metrics.answers import is_abstention
from keqa.programs.boundary.chooser import WAYS, Choice, Chooser, Seen
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.session import context, note, report, within
from keqa.programs.declared import Settle, Way
from keqa.programs.earlier import key_of
from keqa.programs.gate import Draw, Draws
from keqa.programs.prediction import QuizAnswered, QuizExamined
from keqa.programs.records import QuizRecord
from keqa.programs.stage import RecordBuilder


@dataclass
class Settling:
    """A question that is settled otherwise than by its quizzes alone, by what a program has for each way.

    In a cascade each step hands on what it found, and a chooser, if there is one, says where to stop.
    """

    asked: Question
    story: RecordBuilder
    how: Settle
    chooser: Chooser | None
    declines: bool
    remember: Callable[[], Awaitable[Draw]]
    read: Callable[[Draw | None], Awaitable[QuizRecord]]
    apart: Callable[[], Awaitable[None]]
    draft: Draw | None = None
    # How the draft was judged before anything was read.
    judged: dict[str, Any] = field(default_factory=dict)

    async def run(self) -> None:
        if self.how == "cascade":
            await self._cascade()
        elif self.how == "draft" and not self.declines:
            try:
                draft = await self.remember()
            except CallError as error:
                raise UnansweredError.at("answer", error) from error
            self._settle_by_memory(draft, {"certainty": draft.probability})
        else:
            self._settle(await self.read(None), "reading")

    async def _cascade(self) -> None:
        if self.chooser is not None and not self.declines and not await self._asks_on_from_memory(self.chooser):
            return
        whole = await self.read(self.draft)
        if self.draft is not None:
            whole = whole.model_copy(update={**_drawn(self.draft), **self.judged})
        if whole.source != "failed" and not self._asks_on_from(whole):
            self._believe(whole)
        else:
            await self._take_apart(whole)

    async def _asks_on_from_memory(self, chooser: Chooser) -> bool:
        try:
            draft = self.draft = await self.remember()
        except CallError as error:
            note("answer", error.cause, error.message, "read about the question")
            return True
        choice = self._choose(chooser)
        right, onward = choice.right[0], choice.onward
        why = f"right with {right:.2f}" + ("" if onward is None else f", and a reading is worth {onward:.2f}")
        self.judged = {"gate": "chooser", "certainty": right, "known": not choice.asks_on, "stopped": why}
        report(QuizExamined(0, self.asked.question, not choice.asks_on, draft.text, 1.0))
        if not choice.asks_on:
            self._settle_by_memory(draft, self.judged)
        return choice.asks_on

    def _asks_on_from(self, whole: QuizRecord) -> bool:
        chooser, answer = self.chooser, _read_from(whole)
        if chooser is None:
            return not answer or whole.abstained
        return len(chooser.steps) > 1 and self._choose(chooser, answer).asks_on

    async def _take_apart(self, whole: QuizRecord) -> None:
        """Answer it by its quizzes; where one of them, or what they leave open, is the question, that was read."""
        asked, story, failed = self.asked, self.story, whole.source == "failed"
        known = dict(context().findings or {})
        if not failed:
            known[key_of(asked)] = whole
        try:
            with within(findings=known):
                await self.apart()
        except UnansweredError as error:
            # What was read is a part of the story, and what says something stands, whatever failed after it.
            story.whole = None if failed or self._is_asked_again() else whole
            if self._best(whole) is None:
                raise
            note(error.stage, error.cause, error.message, "took the answer of an earlier step")
            self._believe(whole)
            return
        if failed:
            return
        if self._is_asked_again() or self._is_whole():
            # Nothing is known beyond what the last choice was made by.
            self._believe(whole)
            return
        story.whole = whole
        if self.chooser is not None and len(self.chooser.steps) > 2:
            answer = "" if story.unanswered is not None else story.answer or ""
            self._choose(self.chooser, _read_from(whole), answer)
            self._believe(whole)

    def _choose(self, chooser: Chooser, *further: str) -> Choice:
        draft = self.draft
        answers = ("" if draft is None else draft.text or "", *further)
        probability = None if draft is None else draft.probability
        choice = chooser.choose(Seen(self.asked.question, "", answers, probability))
        self.story.chances = {way: p for way, p, one in zip(WAYS, choice.right, answers, strict=False) if one}
        return choice

    def _is_asked_again(self) -> bool:
        """Whether what its quizzes left open was the question, which was read before."""
        return self.story.fallback is not None and not self.story.together

    def _is_whole(self) -> bool:
        return [quiz.resolved for quiz in self.story.quizzes] in ([], [self.asked.question])

    def _best(self, whole: QuizRecord) -> Way | None:
        """By which answer it is most probably right to settle it, of those that say something."""
        story, draft, chances = self.story, self.draft, self.story.chances
        says: dict[Way, bool] = {
            "draft": draft is not None and draft.answer is not None,
            "reading": whole.source == "passages" and not whole.abstained,
            "quizzes": story.unanswered is None and not is_abstention(story.answer or "", self.asked.choices),
        }
        return max((way for way in WAYS if says[way] and way in chances), key=lambda one: chances[one], default=None)

    def _believe(self, whole: QuizRecord) -> None:
        """Settle it by the best answer, or where none says anything by the last one."""
        story, draft, chances = self.story, self.draft, self.story.chances
        way = self._best(whole) or ("reading" if story.whole is None else "quizzes")
        if way == "quizzes":
            return
        if way == "draft" and draft is not None:
            why = "of all answers, the one from memory is most probably right"
            judged = {**self.judged, "known": True, "certainty": chances[way], "stopped": why}
            whole = _remembered(self.asked, draft, judged, whole)
        story.unanswered, story.explanation, story.guessed = None, "", False
        if story.fallback is None and self._is_whole():
            self._settle(whole, way)
            return
        story.whole, story.fallback, story.settled_by = None, whole, way
        story.conclude(self.asked.question, whole)
        if way == "draft":
            story.answer_source = "memory"

    def _settle_by_memory(self, draft: Draw, judged: Mapping[str, Any]) -> None:
        report(QuizAnswered(0, self.asked.question, draft.text, "memory"))
        self._settle(_remembered(self.asked, draft, judged), "draft")

    def _settle(self, record: QuizRecord, way: Way) -> None:
        self.story.quizzes, self.story.settled_by = [record.model_copy(update={"index": 1})], way
        self.story.conclude(self.asked.question, record)


def _read_from(whole: QuizRecord) -> str:
    """What passages answer to a question; where none is kept, memory may have answered in their place."""
    return whole.answer or "" if whole.source == "passages" else ""


def _remembered(asked: Question, draft: Draw, judged: Mapping[str, Any], read: QuizRecord | None = None) -> QuizRecord:
    """The question as a quiz that was answered from memory, of which something may have been read."""
    text = asked.question
    record = read or QuizRecord(index=1, text=text, resolved=text)
    answered = {
        "answer": draft.text,
        "abstained": draft.abstained,
        "source": "memory",
        "missing": None,
        "reasoning": "",
    }
    return record.model_copy(update={**answered, **_drawn(draft), **judged})


def _drawn(draft: Draw) -> dict[str, Any]:
    return Draws(made=[draft]).as_record()
