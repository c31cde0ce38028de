"""KEQA: question answering with knowledge evaluation (KEQA, AAAI 2025, Algorithm 2)."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

import dspy

from keqa.data.question import Question, Quiz, broken_references, resolvable, resolved_text
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention
from keqa.programs import settings as models
from keqa.programs.arguments import LMS, REFERENCE, RETRIEVER, check
from keqa.programs.calls.errors import CallError, UnansweredError
from keqa.programs.calls.predictor import trained_on_prompts
from keqa.programs.calls.session import NoCopy, context, current, gather, note, report, within
from keqa.programs.declared import Style, WaysOut
from keqa.programs.earlier import key_of
from keqa.programs.examination import Examination
from keqa.programs.gate import Draw, Gate, VoteGate
from keqa.programs.gates import questions
from keqa.programs.prediction import QuizAnswered, QuizExamined, QuizFound
from keqa.programs.program import Program, setting
from keqa.programs.records import QuizRecord, QuizSource
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saved_settings import OWN
from keqa.programs.settings import KeqaSettings
from keqa.programs.settling import Settling
from keqa.programs.stage import Answering, Decomposition, Reasoning, RecordBuilder, RoleLMs, Stage, Summarizing
from keqa.programs.stages.documents import OwnDocuments, spoken_in
from keqa.programs.stages.joined import Citing, Drafting, draft_of_whole, outdated_by
from keqa.programs.stages.passages import AskedQuiz, PassageReading, SearchError
from keqa.programs.stages.picking import Listwise, Picking, Reference, merged
from keqa.programs.stages.selection import Selection
from keqa.programs.stages.writing import Writing
from keqa.retrievers.base import Hit

_FALLBACK = "answered the question itself with retrieval"
_BLOCKED = "a quiz is blocked"
_DEEP, _MOST_READ = 3, 8
"""Of each search so many passages are read together, and so many of all."""
_Part = TypeVar("_Part", bound=Stage)


class KEQA(Program):
    """Quizzes the language model, retrieves what it does not know, keeps what helps, and concludes.

    Its settings are those of `keqa.programs.settings.KeqaSettings`: arguments of the constructor, and attributes that
    can be assigned, but for `workers`, which the questions being asked share.
    """

    method: ClassVar[str] = "keqa"
    Settings: ClassVar[type[models.Settings]] = KeqaSettings
    settings: KeqaSettings
    gate = setting("gate", "examination.gate")
    # α of the gate, None where the gate has none; assigned, it is that of KEQA's vote gate.
    threshold = setting("threshold", "examination.gate.threshold")
    similarity = setting("similarity", "selection.similarity")

    def __init__(
        self,
        retriever: Annotated[Any, RETRIEVER] | None,
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
        self.decomposition = Decomposition(bound).follow(chosen)
        self.examination = Examination(gate=self._decides(), bound=bound).follow(chosen)
        self.picking = Picking(parts["reference"], bound).follow(chosen)
        self.selection = Selection(bound=bound).follow(chosen)
        self.answering = Answering(bound)
        self.summarizing = Summarizing(bound)
        self._retriever = NoCopy(parts["retriever"])
        self.documents: OwnDocuments | None = None
        self.drafting: Drafting | None = None
        self.citing: Citing | None = None
        self.reasoning: Reasoning | None = None
        self.writing: Writing | None = None
        self.fit_parts()
        self.bind_lms(lms)

    def _decides(self) -> Gate:
        return self.settings.gate or VoteGate(self.settings.threshold)

    def fit(self, before: models.Settings) -> None:
        changed = [
            name for name, value in self.settings if value is not (old := getattr(before, name)) and value != old
        ]
        for _, stage in self.named_sub_modules(Stage):
            for name in changed:
                if name in stage.follows:
                    setattr(stage, name, getattr(self.settings, name))
        if {"gate", "threshold"} & {*changed}:
            self.examination.gate = self._decides()
        self.fit_parts()

    @property
    def reference(self) -> Reference | None:
        return self.picking.reference

    @reference.setter
    def reference(self, reference: Reference | None) -> None:
        self.picking.reference = check(KEQA, {"reference": reference}, type(self).__name__)["reference"]

    @property
    def way_out(self) -> WaysOut:
        """What is done where the documents do not say what was asked; where that is not set, by the retriever."""
        way: WaysOut | None = self.settings.unanswered
        if way is not None:
            return way
        return "say" if self._has_own_documents else "guess"

    @property
    def _has_own_documents(self) -> bool:
        return self.retriever is not None and getattr(self.retriever, "own_documents", True)

    @property
    def declines(self) -> bool:
        """Whether nothing is answered that neither the language model knows nor the documents say."""
        return self.way_out != "guess"

    @property
    def as_asked(self) -> dict[str, Any]:
        """What ``keqa ask`` sets over documents of one's own where nothing was compiled, less what was set before.

        A language model that was trained on the papers' prompts is asked those, and a utility reference keeps its use.
        """
        chosen = self.settings
        lm = self.decomposition.decompose.lm or dspy.settings.lm
        if not self._has_own_documents or trained_on_prompts(lm):
            return {}
        found = models.as_asked(cites=chosen.cite or chosen.listwise or chosen.unanswered == "guess")
        own = chosen.model_fields_set | (set() if self.reference is None else {"pick", "cite"})
        return {name: value for name, value in found.items() if name not in own}

    @property
    def writes(self) -> bool:
        style = self.settings.style
        return self.declines if style is None else style != "short"

    def described(self) -> dict[str, Any]:
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
            found = (
                "with a utility reference, and this program has none to load it into: make the program with "
                "reference=UtilityReference(), of keqa.programs.reference.utility_reference, before"
            )
        raise ConfigurationError(f"the state was saved {found}")

    def bind_retriever(self, retriever: Any) -> None:
        super().bind_retriever(retriever)
        self.fit_parts()

    def fit_parts(self) -> None:
        """Have the parts that the settings, or the retriever, ask for, and no others."""
        chosen, answer = self.settings, self.answering.answer
        papers = {"quiz": self.examination.quiz, "answer": answer, "support": self.picking.judge}
        drafts = chosen.draft and chosen.decompose and chosen.examine
        whole = not chosen.select and chosen.extract_sentences is None
        cites = chosen.cite and chosen.pick and whole
        written = {"write": answer, "items": answer, "compare": answer, "support": self.picking.judge}
        self.examination.weighed = chosen.arbiter is not None
        self.writing = self._part(self.writing, Writing, self.writes, **written)
        self.documents = self._part(self.documents, OwnDocuments, self.declines, **papers)
        self.drafting = self._part(self.drafting, Drafting, drafts, draft=self.decomposition.decompose)
        self.citing = self._part(self.citing, Citing, cites, cite=answer)
        reasons = chosen.reason and whole and not cites and not self.declines
        self.reasoning = self._part(self.reasoning, Reasoning, reasons, answer=answer)
        if self.documents is not None:
            for name, paper in papers.items():
                asked = getattr(self.documents, name)
                # What was learned for the papers' prompts holds for those of the same fields.
                asked.like = paper if asked.signature.fields.keys() == paper.signature.fields.keys() else None

    def _part(self, there: _Part | None, kind: type[_Part], wanted: bool, **likes: Any) -> _Part | None:
        """A part where it is wanted: the one that is there, or a new one that asks the language models of others."""
        if not wanted:
            return None
        return kind(self.bound).follow(self.settings).like(**likes) if there is None else there

    @property
    def optional(self) -> Mapping[str, type[dspy.Signature]]:
        """The predictors that gates and settings bring along; what was saved without knows none of them."""
        parts = {f"examination.{one.attribute}": one.signatures for one in questions()}
        parts |= {"picking.together": Listwise.signatures, "documents": OwnDocuments.signatures}
        parts |= {"drafting": Drafting.signatures, "citing": Citing.signatures, "reasoning": Reasoning.signatures}
        parts["writing"] = Writing.signatures
        return {f"{part}.{name}": one for part, named in parts.items() for name, one in named.items()}

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 2, and what is written from the passages that it kept; see `Program.solve`."""
        with within(own_documents=self.declines and self._has_own_documents):
            await self._solve(asked, story)

    async def _solve(self, asked: Question, story: RecordBuilder) -> None:
        """A list is gathered from passages alone, and the question is settled where none can be."""
        writing = self.writing
        style: Style = "short"
        if writing is not None:
            style = writing.style_of(asked, self.settings.style or "auto")
            if style == "list" and await writing.lists(asked, story, self._reading):
                return
        writes, settle = style not in ("short", "list"), self.settings.settle
        if settle == "cascade" and self.settings.chooser is None and style in ("report", "table"):
            # What one search tells may be enough to answer, and is little to write from.
            settle = "quizzes"
        # What else is written, or chosen of the answers there are, is the answer; until then, each is a draft of it.
        with _as_draft(writes or (settle == "cascade" and self.settings.chooser is not None)):
            if settle == "quizzes":
                await self._take_apart(asked, story)
            else:
                await self._settle(asked, story)
        if writing is not None and writes:
            await writing.writes(asked, story, style, self._reading)

    @property
    def _reading(self) -> PassageReading:
        reads = self.reasoning or self.answering
        parts = (self.picking, self.selection, reads, self.citing, self.documents)
        return PassageReading(self.settings, self.retriever, *parts)

    async def _settle(self, asked: Question, story: RecordBuilder) -> None:
        settings = self.settings

        async def read(draft: Draw | None) -> QuizRecord:
            # Of a cascade, a later step may be the answer.
            with _as_draft(settings.settle == "cascade"):
                return await self._answer_whole(asked, Quiz(0, asked.question), examine=False, draft=draft)

        ways = (partial(self.examination.draft, asked), read, partial(self._take_apart, asked, story))
        await Settling(asked, story, settings.settle, settings.chooser, self.declines, *ways).run()

    async def _take_apart(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 2: the short answer by quizzes."""
        story.settled_by = "quizzes"
        settings, quizzes, drafts = self.settings, [Quiz(1, asked.question)], dict[int, Draw]()
        if settings.decompose:
            own = {} if self.documents is None else {"own": True}
            if self.drafting is None:
                quizzes = await self.decomposition.acall(asked.question, **own)
            else:
                quizzes, drafts = await self.drafting.acall(asked.question, **own)
            for quiz in quizzes:
                report(QuizFound(quiz.index, quiz.text, tuple(quiz.depends_on)))
        if [quiz.text for quiz in quizzes] == [asked.question]:
            draft = draft_of_whole(drafts, asked, quizzes[0]) if drafts else None
            # A cascade read the question before, and takes that for its answer.
            summarizes = settings.decompose and settings.summarize_single and settings.settle != "cascade"
            with _as_draft(summarizes):
                record = await self._answer_whole(asked, quizzes[0], examine=settings.examine, draft=draft)
            story.quizzes = [record]
            summarized = summarizes and story.answered
            otherwise = "took the quiz's answer for the answer"
            if not (summarized and await self._summarize(asked, story, otherwise)):
                story.conclude(asked.question, record)
            return
        with _as_draft():
            story.quizzes = await self._answer_quizzes(asked, quizzes, drafts)
        await self._conclude(asked, story)

    async def _conclude(self, asked: Question, story: RecordBuilder) -> None:
        settings, missing = self.settings, _missing(story)
        if settings.read_together and await self._read_together(asked, story, settled=missing is None):
            return
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

    async def _answer_whole(
        self, asked: Question, quiz: Quiz, *, examine: bool, draft: Draw | None = None
    ) -> QuizRecord:
        return await self._answer_quiz(AskedQuiz(quiz, asked, whole=True, draft=draft), examine=examine)

    async def _read_together(self, asked: Question, story: RecordBuilder, *, settled: bool) -> bool:
        """Answer the question from what was found for it and its quizzes, and say whether that is an answer."""
        found = [[Hit(one.passage, one.score) for one in quiz.passages if one.kept] for quiz in story.quizzes]
        remembered = any(quiz.answer and quiz.source != "passages" for quiz in story.quizzes)
        if remembered or not any(found) or (self.declines and not settled):
            return False
        whole = AskedQuiz(Quiz(0, asked.question), asked, whole=True)
        # They were picked for the quizzes, whose searches go where expanding the question's would.
        changes = {"pick": False, "expand": 0}
        reading = replace(self._reading, settings=self.settings.changed(changes, "reading together"))
        try:
            searches = [await reading.search(whole), *found]
            hits = merged([one[:_DEEP] for one in searches], _MOST_READ)
            # Where it tells nothing, the summary is the answer.
            with _as_draft():
                read = await reading.answer(whole, hits)
        except CallError as error:
            stage = "retrieve" if isinstance(error, SearchError) else "answer"
            note(stage, error.cause, error.message, "summarized the quizzes", 0)
            return False
        record = None if read is None else whole.record(*read, self.gate, checked=self.declines)
        if record is None or record.answer is None or record.abstained:
            return False
        report(QuizAnswered(0, asked.question, record.answer, record.source))
        story.fallback, story.together = record, True
        story.conclude(asked.question, record)
        return True

    async def _summarize(self, asked: Question, story: RecordBuilder, otherwise: str, *, settles: bool = True) -> bool:
        """Conclude from the answered quizzes, and say whether that is an answer; "unknown" is where it `settles`."""
        try:
            explanation, answer = await self.summarizing.acall(asked, story.answered)
        except CallError as error:
            if not error.unusable:
                raise UnansweredError.at("summarize", error) from error
            note("summarize", error.cause, error.message, otherwise)
            return False
        if not settles and is_abstention(answer, asked.choices):
            return False
        story.explanation, story.answer, story.answer_source = explanation, answer, "summary"
        story.guessed = any(quiz.is_guess for quiz in story.quizzes)
        return True

    async def _fall_back(self, asked: Question, story: RecordBuilder, *, failed: bool) -> None:
        """Answer the question itself; what failed before is not made good by an answer from memory."""
        story.fallback = await self._answer_whole(asked, Quiz(0, asked.question), examine=False)
        if failed and self.retriever is not None and story.fallback.source in ("closed_book", "unanswered"):
            message = "a part of it failed, and no passage helped with the question itself"
            raise UnansweredError("answer", "NoPassagesError", message)
        story.conclude(asked.question, story.fallback)

    async def _answer_quizzes(
        self, asked: Question, quizzes: Sequence[Quiz], drafts: Mapping[int, Draw]
    ) -> list[QuizRecord]:
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
            part = AskedQuiz(quiz, Question(text), whole=text == asked.question, draft=drafts.get(quiz.index))
            if drafts:
                part.outdated = outdated_by(earlier, drafts)
            return await self._answer_quiz(part, examine=self.settings.examine)

        tasks.update((quiz.index, asyncio.ensure_future(follow(quiz))) for quiz in quizzes)
        return await gather(tasks.values())

    async def _answer_quiz(self, asked: AskedQuiz, *, examine: bool) -> QuizRecord:
        """Lines 4 to 18; where finding or reading passages failed there is no answer, not even from memory."""
        index, text, findings = asked.quiz.index, asked.text, context().findings
        if findings and (before := findings.get(key_of(asked.what))) is not None:
            report(QuizAnswered(index, text, before.answer, before.source, earlier=before.earlier))
            return before.model_copy(update=asked.place)
        answer: str | None = None
        source: QuizSource = "failed"
        try:
            answer, source = await self._answered(asked, examine)
        except CallError as error:
            stage = "retrieve" if isinstance(error, SearchError) else "answer"
            note(stage, error.cause, error.message, "left the quiz unanswered", index)
        report(QuizAnswered(index, text, answer, source))
        return asked.record(answer, source, self.gate, checked=self.declines and source == "passages")

    async def _answered(self, asked: AskedQuiz, examine: bool) -> tuple[str | None, QuizSource]:
        index, text, reading, documents = asked.quiz.index, asked.text, self._reading, self.documents
        # Documents of one's own may be searched before anything is drawn.
        looks = examine and documents is not None and self.settings.look_first and isinstance(self.gate, VoteGate)
        hits = await reading.search(asked) if looks else None
        about = spoken_in([hit.passage for hit in hits], text) if hits else []
        if about:
            asked.fields["stopped"] = f"not asked from memory: the documents speak of {', '.join(about)}"
        elif examine:
            if asked.draft is None:
                own = None if documents is None else documents.own("quiz")
                found = await self.examination.acall(asked.what, number=index, predictor=own)
            else:
                found = await self.examination.of_draft(asked.draft, asked.what, index, outdated=asked.outdated)
            asked.found = found
            report(QuizExamined(index, text, found.known, found.leading, float(found.consistency)))
            if found.known:
                recalled, source = await self._from_memory(asked)
                return recalled, "memory" if source == "largest_cluster" else source
        read = await reading.find(asked, await reading.search(asked) if hits is None else hits)
        return await self._from_memory(asked) if read is None else read

    async def _from_memory(self, asked: AskedQuiz) -> tuple[str, QuizSource]:
        """The largest cluster of all draws, or a closed-book answer where there is none or that is wanted."""
        found = asked.found
        if found is None and asked.draft is not None:
            return str(asked.draft.text), "closed_book"
        if found is not None and (found.known or self.settings.on_nothing_helpful != "closed_book"):
            if not found.known:
                await self.examination.complete(found)
            if found.leading is not None:
                return found.leading, "largest_cluster"
        return await self.examination.recall(asked.what), "closed_book"


def _as_draft(is_one: bool = True) -> AbstractContextManager[None]:
    """Within it, what is written is no answer yet, where that is so or was before."""
    return within(drafts=is_one or context().drafts)


def _missing(story: RecordBuilder) -> str | None:
    """What the question lacks to be summarized; from some of its quizzes alone the language model may guess."""
    sources = {record.source for record in story.quizzes}
    if not story.answered:
        return "no quiz could be answered"
    if "failed" in sources:
        return "a quiz failed"
    return _BLOCKED if sources & {"blocked", "skipped", "unanswered"} else None


def _unanswered(quiz: Quiz, *, blocked: bool) -> QuizRecord:
    source: QuizSource = "blocked" if blocked else "skipped"
    return QuizRecord(index=quiz.index, text=quiz.text, depends_on=list(quiz.depends_on), source=source)
