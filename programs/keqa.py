"""KEQA: question answering with knowledge evaluation (KEQA, AAAI 2025, Algorithm 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, cast

import dspy

from keqa.data.question import Question, Quiz, broken_references, resolvable, resolved_text
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention
from keqa.programs import settings as models
from keqa.programs.arguments import LMS, REFERENCE, RETRIEVER, check
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.progress import QuizFound
from keqa.programs.calls.session import NoCopy, current, joined, note, report
from keqa.programs.examination import Examination
from keqa.programs.gate import Gate, VoteGate
from keqa.programs.gates import questions
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.quizzes import QuizProgram
from keqa.programs.records import AnswerSource, QuizRecord, QuizSource
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving.values import OWN
from keqa.programs.settings import KeqaSettings
from keqa.programs.stages.documents import OwnDocuments
from keqa.programs.stages.picking import Listwise, Picking, Reference
from keqa.programs.stages.selection import Selection, Similarity
from keqa.programs.stages.stage import Answering, Decomposition, RoleLMs, Stage, Summarizing
from keqa.programs.unanswered import unanswered_of
from keqa.retrievers.base import Retriever

_FALLBACK = "answered the question itself with retrieval"
_BLOCKED = "a quiz is blocked"


class KEQA(QuizProgram):
    """Quizzes the language model, retrieves what it does not know, keeps what helps, and concludes.

    Every part is a stage of its own that is always there, so that a saved state fits whichever parts are on; only what
    a gate brings along (`optional`) comes and goes. Its settings are those of `keqa.programs.settings.KeqaSettings`:
    arguments of the constructor, and attributes that can be assigned, but for `workers`, which the questions being
    asked share.
    """

    method: ClassVar[str] = "keqa"
    Settings: ClassVar[type[models.Settings]] = KeqaSettings
    settings: KeqaSettings

    def __init__(
        self,
        retriever: Annotated[Retriever, RETRIEVER] | None,
        *,
        lms: Annotated[RoleLMs, LMS] | None = None,
        reference: Annotated[Reference, REFERENCE] | None = None,
        **settings: Any,
    ) -> None:
        """Set up; the defaults are the paper's.

        Args:
            retriever: Where unknown knowledge comes from; with None the program has its memory only.
            lms: A language model for each role; ``dspy.settings.lm`` where None.
            reference: The utility reference: from a quiz and a passage to demonstrations.
            **settings: Those of `keqa.programs.settings.KeqaSettings`, such as ``tries=3``.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        parts = check(KEQA, {"retriever": retriever, "reference": reference}, type(self).__name__)
        super().__init__(lms=lms, **settings)
        bound, chosen = self.bound, self.settings
        self.decomposition = Decomposition(chosen.max_quizzes, bound)
        drawing = {name: getattr(chosen, name) for name in Examination.follows}
        self.examination = Examination(gate=self._decides(), bound=bound, **drawing)
        self.picking = Picking(parts["reference"], bound, chosen.listwise)
        self.picking.prefer_reliable = chosen.prefer_reliable
        self.selection = Selection(chosen.evidence_sentences, chosen.similarity, bound)
        self.answering = Answering(bound)
        self.summarizing = Summarizing(bound)
        self._retriever = NoCopy(parts["retriever"])
        self.documents = None
        self.fit_documents()
        self.bind_lms(lms)

    def _decides(self) -> Gate:
        return self.settings.gate or VoteGate(self.settings.threshold)

    def fit(self, before: models.Settings) -> None:
        """Have the stages follow the settings."""
        changed = [
            name for name, value in self.settings if value is not (old := getattr(before, name)) and value != old
        ]
        for _, stage in self.named_sub_modules(Stage):
            for name in changed:
                if name in stage.follows:
                    setattr(stage, name, getattr(self.settings, name))
        if {"gate", "threshold"} & {*changed}:
            self.examination.gate = self._decides()
        self.fit_documents()

    @property
    def gate(self) -> Gate:
        """What decides whether a quiz is known."""
        return self.examination.gate

    @property
    def threshold(self) -> Fraction | None:
        """α of the gate, None where the gate has none; assigned, it is that of KEQA's vote gate."""
        return getattr(self.gate, "threshold", None)

    @property
    def similarity(self) -> Similarity:
        """What compares sentences."""
        return self.selection.similarity

    @property
    def reference(self) -> Reference | None:
        """The utility reference."""
        return self.picking.reference

    @reference.setter
    def reference(self, reference: Reference | None) -> None:
        self.picking.reference = check(KEQA, {"reference": reference}, type(self).__name__)["reference"]

    def described(self) -> dict[str, Any]:
        """As of every program, and whether there is a utility reference."""
        found: Any = self.reference
        if found is not None:
            found = {"entries": len(found.entries)} if isinstance(found, UtilityReference) else OWN
        return {**super().described(), "reference": found}

    def take(self, saved: Any, *, whole: bool) -> None:
        """As of every program; a utility reference is there where it was saved with one, and only there."""
        super().take(saved, whole=whole)
        then = saved["reference"]
        if (then is None) == (self.reference is None):
            return
        if then is None:
            found = "without a utility reference, and this program has one: load it into a program without"
        elif then == OWN:
            found = "with a utility reference that is code of your own: make the program with it, reference=…, before"
        elif whole:
            self.reference = UtilityReference()
            return
        else:
            entries = then.get("entries") if isinstance(then, Mapping) else None
            found = (
                f"with a utility reference of {entries!a:.20} entries, and this program has none to load it into: make "
                "the program with reference=UtilityReference(), of keqa.programs.reference.utility_reference, before"
            )
        raise ConfigurationError(f"the state was saved {found}")

    def bind_retriever(self, retriever: Any) -> None:
        """As for every program; what is done where nothing is found may go by the retriever."""
        super().bind_retriever(retriever)
        self.fit_documents()

    def fit_documents(self) -> None:
        """Have the prompts for documents of one's own exactly where they are asked."""
        if not self.declines:
            self.documents = None
            return
        made = self.documents or OwnDocuments(self.bound)
        likes = {"quiz": self.examination.quiz, "answer": self.answering.answer, "support": self.picking.judge}
        for name, like in likes.items():
            asked = getattr(made, name)
            if self.documents is None:
                asked.lm, asked.fixed = like.lm, self.demonstrations
            # What was learned for the papers' prompts holds for those of the same fields.
            asked.like = like if asked.signature.fields.keys() == like.signature.fields.keys() else None
        self.documents = made

    @property
    def optional(self) -> Mapping[str, type[dspy.Signature]]:
        """The predictors that gates and the listwise judge bring along; what was saved without knows none of them."""
        asked = {name: signature for one in questions() for name, signature in one.predictors_by_name().items()}
        parts = {"picking.together": Listwise.signatures, "documents": OwnDocuments.signatures}
        return asked | {f"{part}.{name}": one for part, named in parts.items() for name, one in named.items()}

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 2; see `Program.solve`."""
        settings, quizzes = self.settings, [Quiz(1, asked.question)]
        if settings.decompose:
            own = {} if self.documents is None else {"own": True}
            quizzes = await self.decomposition.acall(asked.question, **own)
            for quiz in quizzes:
                report(QuizFound(quiz.index, quiz.text, tuple(quiz.depends_on)))
        if [quiz.text for quiz in quizzes] == [asked.question]:
            record = await self._answer_whole(asked, quizzes[0], examine=settings.examine)
            story.quizzes = [record]
            summarized = settings.decompose and settings.summarize_single and _answers([record])
            otherwise = "took the quiz's answer for the answer"
            if not (summarized and await self._summarize(asked, story, otherwise)):
                _conclude(asked, story, record)
            return
        story.quizzes = await self._answer_quizzes(asked, quizzes)
        missing = _missing(story.quizzes)
        # What the documents do not say of a part is not made good by the other parts.
        if missing == _BLOCKED and settings.summarize_known and not any(quiz.missing for quiz in story.quizzes):
            note("references", "Unsettled", missing, "summarized the quizzes that are answered")
            if await self._summarize(asked, story, _FALLBACK, settles=False):
                return
        if missing is not None:
            note("references", "Unsettled", missing, _FALLBACK)
            failed = any(record.source == "failed" for record in story.quizzes)
            await self._fall_back(asked, story, failed=failed)
        elif not await self._summarize(asked, story, _FALLBACK, settles=not self.declines):
            failed = any(one.stage == "summarize" for one in current().degradations)
            await self._fall_back(asked, story, failed=failed)

    async def _answer_whole(self, asked: Question, quiz: Quiz, *, examine: bool) -> QuizRecord:
        return await self.answer_quiz(asked, quiz, asked.question, asked.answer_type, asked.choices, examine=examine)

    async def _summarize(self, asked: Question, story: RecordBuilder, otherwise: str, *, settles: bool = True) -> bool:
        """Conclude from the answered quizzes, and say whether there is an answer; else `otherwise` is done instead.

        A summary that says that it does not know is an answer where it `settles`.
        """
        try:
            explanation, answer = await self.summarizing.acall(
                asked.question, _answers(story.quizzes), asked.answer_type, asked.choices
            )
        except CallError as error:
            if not error.unusable:
                raise UnansweredError.at("summarize", error) from error
            note("summarize", error.cause, error.message, otherwise)
            return False
        if not settles and is_abstention(answer, asked.choices):
            return False
        story.explanation, story.answer, story.answer_source = explanation, answer, "summary"
        story.guessed = any(map(_is_guess, story.quizzes))
        return True

    async def _fall_back(self, asked: Question, story: RecordBuilder, *, failed: bool) -> None:
        """Answer the question itself with retrieval; what failed before is not made good by an answer from memory."""
        story.fallback = await self._answer_whole(asked, Quiz(0, asked.question), examine=False)
        if failed and self._retriever.value is not None and story.fallback.source in ("closed_book", "unanswered"):
            message = "a part of it failed, and no passage helped with the question itself"
            raise UnansweredError("answer", "NoPassagesError", message)
        _conclude(asked, story, story.fallback)

    async def _answer_quizzes(self, asked: Question, quizzes: Sequence[Quiz]) -> list[QuizRecord]:
        """Answer each quiz as soon as those that it refers to are answered."""
        problems = broken_references(quizzes)
        for problem in problems:
            action = "blocked the quiz" if problem.fatal else "put the quiz after the one that it refers to"
            note("references", problem.cause, problem.message, action, problem.quiz)
        sound = resolvable(quizzes)
        if any(problem.fatal for problem in problems) and not self.settings.summarize_known:
            # The question has to be answered by itself in any case, so no quiz is worth a call.
            return [_unanswered(quiz, blocked=quiz.index not in sound) for quiz in quizzes]
        tasks: dict[int, asyncio.Task[QuizRecord]] = {}

        async def follow(quiz: Quiz) -> QuizRecord:
            if quiz.index not in sound:
                return _unanswered(quiz, blocked=True)
            earlier = {number: await tasks[number] for number in quiz.depends_on}
            text = resolved_text(quiz, {number: None if r.abstained else r.answer for number, r in earlier.items()})
            if text is None:
                missing = ", ".join(f"#{n}" for n, r in earlier.items() if r.abstained or r.answer is None)
                note("references", "Unanswered", f"no answer to {missing}", "blocked the quiz", quiz.index)
                return _unanswered(quiz, blocked=True)
            return await self.answer_quiz(asked, quiz, text, examine=self.settings.examine)

        tasks.update((quiz.index, asyncio.ensure_future(follow(quiz))) for quiz in quizzes)
        return await joined(tasks.values())


def _answers(quizzes: Sequence[QuizRecord]) -> list[tuple[str, str]]:
    """The resolved quizzes that have an answer, with it."""
    return [(one.resolved, one.answer) for one in quizzes if one.resolved and one.answer and not one.abstained]


def _missing(quizzes: Sequence[QuizRecord]) -> str | None:
    """What the question lacks to be summarized; None where nothing does.

    Quizzes are asked for they are all needed: from the others alone the language model may guess.
    """
    sources = {record.source for record in quizzes}
    if not _answers(quizzes):
        return "no quiz could be answered"
    if "failed" in sources:
        return "a quiz failed"
    return _BLOCKED if sources & {"blocked", "skipped", "unanswered"} else None


def _unanswered(quiz: Quiz, *, blocked: bool) -> QuizRecord:
    source: QuizSource = "blocked" if blocked else "skipped"
    return QuizRecord(index=quiz.index, text=quiz.text, depends_on=list(quiz.depends_on), source=source)


def _is_guess(record: QuizRecord) -> bool:
    """Whether an answer rests on no passage, and on a memory that was not found to be sure."""
    return record.source in ("largest_cluster", "closed_book") and not record.known


def _conclude(asked: Question, story: RecordBuilder, record: QuizRecord) -> None:
    """Take the answer to the question itself for the answer, or that the documents do not say it."""
    if record.missing is not None:
        story.unanswered = unanswered_of(asked.question, story.quizzes, record)
        story.answer, story.answer_source = story.unanswered.message, "unanswered"
        return
    if record.answer is None:
        last = current().degradations[-1]
        raise UnansweredError(last.stage, last.cause, last.message)
    story.answer, story.guessed = record.answer, _is_guess(record)
    story.answer_source = "fallback" if record is story.fallback else cast(AnswerSource, record.source)
