"""KEQA: question answering with knowledge evaluation (KEQA, AAAI 2025, Algorithm 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import dspy

from keqa.data.question import AnswerType, Question, Quiz, broken_references, resolvable, resolved_text
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention, same_answer
from keqa.programs import settings as models
from keqa.programs.arguments import LMS, REFERENCE, RETRIEVER, check
from keqa.programs.calls.ask import searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import NoCopy, current, gather, note, report, within
from keqa.programs.declared import Style, WaysOut
from keqa.programs.earlier import settled_before
from keqa.programs.examination import Examination, Examined
from keqa.programs.gate import Draw, Gate, VoteGate
from keqa.programs.gates import questions
from keqa.programs.prediction import PassagesKept, QuizAnswered, QuizExamined, QuizFound
from keqa.programs.predictor import trained_on_prompts
from keqa.programs.program import Program, RecordBuilder, UnansweredError
from keqa.programs.records import (
    ClusterRecord,
    PassageVerdict,
    QuizRecord,
    QuizSource,
    SampleRecord,
    fraction_text,
)
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.saving.values import OWN
from keqa.programs.sentences import without_older
from keqa.programs.settings import KeqaSettings
from keqa.programs.settling import Settling, conclude, is_guess, weighed
from keqa.programs.stages.documents import (
    NO_REPLY,
    OwnDocuments,
    carrying,
    contradicting,
    missing_quiz,
    spoken_in,
    tells,
)
from keqa.programs.stages.joined import Citing, Drafting
from keqa.programs.stages.picking import Listwise, Picking, Reference, unjudged, verdict_on, with_kept
from keqa.programs.stages.selection import Selection, Similarity, with_key_sentences
from keqa.programs.stages.stage import Answering, Decomposition, RoleLMs, Stage, Summarizing
from keqa.programs.stages.writing import Writing, told_style
from keqa.retrievers.base import Hit, Passage, Retriever

_FALLBACK = "answered the question itself with retrieval"
_BLOCKED = "a quiz is blocked"
_REREAD = 3


class _SearchError(CallError):
    """A search failed, which does not mean that nothing was found."""


@dataclass
class _Asked:
    """A quiz while it is answered, or the `whole` question: resolved, with what is known of it.

    Its draft, where there is one, is `outdated` where an earlier quiz has another answer than it was written with.
    """

    quiz: Quiz
    what: tuple[str, AnswerType, list[str]]
    whole: bool
    draft: Draw | None = None
    outdated: str = ""
    found: Examined | None = None
    passages: list[PassageVerdict] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.what[0]

    def told_by(self, answer: str) -> bool:
        """Whether an answer from the passages is one."""
        return tells(answer, self.text, self.passages, self.what[2])


class KEQA(Program):
    """Quizzes the language model, retrieves what it does not know, keeps what helps, and concludes.

    Its settings are those of `keqa.programs.settings.KeqaSettings`: arguments of the constructor, and attributes that
    can be assigned, but for `workers`, which the questions being asked share.
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
        self.documents: OwnDocuments | None = None
        self.drafting: Drafting | None = None
        self.citing: Citing | None = None
        self.writing: Writing | None = None
        self.fit_documents()
        self.fit_forms()
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
        self.fit_forms()

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

    @property
    def way_out(self) -> WaysOut:
        """What is done where the documents do not say what was asked; where that is not set, by the retriever."""
        way: WaysOut | None = self.settings.unanswered
        if way is not None:
            return way
        retriever = self._retriever.value
        return "guess" if retriever is None or not getattr(retriever, "own_documents", True) else "say"

    @property
    def declines(self) -> bool:
        """Whether nothing is answered that neither the language model knows nor the documents say."""
        return self.way_out != "guess"

    @property
    def writes(self) -> bool:
        """Whether a question may have a written answer."""
        style = self.settings.style
        return self.declines if style is None else style != "short"

    def style_of(self, asked: Question) -> Style:
        """How a question is answered; in short where the language model knows the papers' prompts alone."""
        style = self.settings.style or "auto"
        if self.writing is None or asked.answer_type != "short":
            return "short"
        if style != "auto":
            return style
        return "short" if trained_on_prompts(self.writing.write.lm or dspy.settings.lm) else told_style(asked.question)

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
        """Have the prompts for documents of one's own, and for written answers, exactly where they are asked."""
        if not self.writes:
            self.writing = None
        elif self.writing is None:
            self.writing = Writing(self.bound)
            for name, role in Writing.roles.items():
                like = self.picking.judge if role == "utility" else self.answering.answer
                asked = getattr(self.writing, name)
                asked.lm, asked.fixed = like.lm, self.demonstrations
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

    def fit_forms(self) -> None:
        """Have the stages that take one call in the place of several exactly where the settings ask for them."""
        chosen = self.settings
        if not (chosen.draft and chosen.decompose and chosen.examine):
            self.drafting = None
        elif self.drafting is None:
            self.drafting = Drafting(chosen.max_quizzes, self.bound)
            self.drafting.draft.lm, self.drafting.draft.fixed = self.decomposition.decompose.lm, self.demonstrations
        if not (chosen.cite and chosen.pick) or chosen.select or chosen.extract_sentences is not None:
            self.citing = None
        elif self.citing is None:
            self.citing = Citing(self.bound)
            self.citing.cite.lm, self.citing.cite.fixed = self.answering.answer.lm, self.demonstrations

    @property
    def optional(self) -> Mapping[str, type[dspy.Signature]]:
        """The predictors that gates and settings bring along; what was saved without knows none of them."""
        parts = {f"examination.{one.attribute}": one.signatures for one in questions()}
        parts |= {"picking.together": Listwise.signatures, "documents": OwnDocuments.signatures}
        parts |= {"drafting": Drafting.signatures, "citing": Citing.signatures, "writing": Writing.signatures}
        return {f"{part}.{name}": one for part, named in parts.items() for name, one in named.items()}

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 2, and what is written from the passages that it kept; see `Program.solve`.

        A list is gathered from passages alone, and the question is settled where none can be.
        """
        style = self.style_of(asked)
        if style == "list" and await self._listed(asked, story):
            return
        # What else is written is the answer; until then, the short one is a draft of it.
        with within(drafts=style not in ("short", "list")):
            await self._settle(asked, story)
        if style not in ("short", "list"):
            await self._write(asked, story, style)

    async def _listed(self, asked: Question, story: RecordBuilder) -> bool:
        """List what passages tell, and say whether that settles the question."""
        writing, settings = self.writing, self.settings
        seen: list[PassageVerdict] = []

        async def found(k: int) -> list[PassageVerdict]:
            hits = await searched(self._retriever.value, asked.question, k)
            seen[:] = unjudged(hits, "gone through for the list", kept=False)
            return list(seen)

        if writing is None or self._retriever.value is None:
            return False
        try:
            written = await writing.gathered(
                asked.question, found, settings.top_k, settings.max_passages, mark=settings.mark_unsupported
            )
        except CallError as error:
            note("write", error.cause, error.message, "answered in short")
            return False
        story.written = written
        if written.text:
            story.answer, story.answer_source = written.plain, "passages"
        elif self.declines:
            missing = missing_quiz(0, asked.question, seen, "", [], searched=True)
            last = QuizRecord(index=0, text=asked.question, missing=missing)
            conclude(asked, story, last)
        return bool(written.text) or self.declines

    async def _write(self, asked: Question, story: RecordBuilder, style: Style) -> None:
        """Write from the passages kept for all quizzes; a report, or where none was, also from the question's own."""
        if self.writing is None:
            return
        settled = [one for one in (*story.quizzes, story.fallback, story.whole) if one is not None]
        found = [one for quiz in settled for one in quiz.passages if one.kept]
        try:
            asked_whole = any(quiz.retrieved for quiz in settled if quiz.resolved == asked.question)
            if not asked_whole and (style == "report" or not found):
                # Quizzes ask for facts, and a report tells more than these.
                whole = _Asked(Quiz(0, asked.question), (asked.question, "short", []), whole=True)
                _, verdicts = await self._picked(whole, await self._search(whole))
                found += [one for one in verdicts if one.kept]
            kept = {(one.passage_id, one.title, one.text): one for one in found}
            if not kept:
                return
            findings = [f"{quiz} {answer}" for quiz, answer in _answers(story.quizzes)]
            mark = self.settings.mark_unsupported
            story.written = await self.writing.acall(asked.question, style, [*kept.values()], findings, mark=mark)
        except CallError as error:
            note("write", error.cause, error.message, "answered in short")
            return
        finding = story.unanswered
        if story.written.text and finding is not None and finding.kind != "sources contradict each other":
            # What is no short answer, such as a summary, is none that the documents lack.
            story.unanswered, story.answer_source = None, "passages"
            story.answer = story.written.plain

    async def _settle(self, asked: Question, story: RecordBuilder) -> None:
        """The short answer, in the way that is set."""

        def draft(asked: Question) -> Awaitable[Draw]:
            return self.examination.draft(asked.question, asked.answer_type, asked.choices)

        def read(asked: Question, draft: Draw | None) -> Awaitable[QuizRecord]:
            return self._answer_whole(asked, Quiz(0, asked.question), examine=False, draft=draft)

        how = (self.settings.settle, self.settings.chooser, self.declines)
        await Settling(*how, draft, read, self._take_apart).run(asked, story)

    async def _take_apart(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 2: the short answer by quizzes."""
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
            draft = drafts.get(quizzes[0].index)
            draft = None if draft is None or not _is_an_option(draft, asked) else draft
            record = await self._answer_whole(asked, quizzes[0], examine=settings.examine, draft=draft)
            story.quizzes = [record]
            summarized = settings.decompose and settings.summarize_single and _answers([record])
            otherwise = "took the quiz's answer for the answer"
            if not (summarized and await self._summarize(asked, story, otherwise)):
                conclude(asked, story, record)
            return
        story.quizzes = await self._answer_quizzes(asked, quizzes, drafts)
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

    async def _answer_whole(
        self, asked: Question, quiz: Quiz, *, examine: bool, draft: Draw | None = None
    ) -> QuizRecord:
        what = (asked.question, asked.answer_type, asked.choices)
        return await self._answer_quiz(_Asked(quiz, what, whole=True, draft=draft), examine=examine)

    async def _summarize(self, asked: Question, story: RecordBuilder, otherwise: str, *, settles: bool = True) -> bool:
        """Conclude from the answered quizzes, and say whether that is an answer; "unknown" is where it `settles`."""
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
        story.guessed = any(map(is_guess, story.quizzes))
        return True

    async def _fall_back(self, asked: Question, story: RecordBuilder, *, failed: bool) -> None:
        """Answer the question itself with retrieval; what failed before is not made good by an answer from memory."""
        story.fallback = await self._answer_whole(asked, Quiz(0, asked.question), examine=False)
        if failed and self._retriever.value is not None and story.fallback.source in ("closed_book", "unanswered"):
            message = "a part of it failed, and no passage helped with the question itself"
            raise UnansweredError("answer", "NoPassagesError", message)
        conclude(asked, story, story.fallback)

    async def _answer_quizzes(
        self, asked: Question, quizzes: Sequence[Quiz], drafts: Mapping[int, Draw]
    ) -> list[QuizRecord]:
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
            part = _Asked(quiz, (text, "short", []), whole=text == asked.question, draft=drafts.get(quiz.index))
            part.outdated = _written_with_others(earlier, drafts)
            return await self._answer_quiz(part, examine=self.settings.examine)

        tasks.update((quiz.index, asyncio.ensure_future(follow(quiz))) for quiz in quizzes)
        return await gather(tasks.values())

    async def _answer_quiz(self, asked: _Asked, *, examine: bool) -> QuizRecord:
        """Lines 4 to 18; where finding or reading passages failed there is no answer, not even from memory."""
        quiz, (text, _, choices) = asked.quiz, asked.what
        if (before := settled_before(*asked.what)) is not None:
            report(QuizAnswered(quiz.index, text, before.answer, before.source, earlier=before.earlier))
            place = {"index": quiz.index, "text": quiz.text, "resolved": text, "depends_on": list(quiz.depends_on)}
            return before.model_copy(update=place)
        answer: str | None = None
        source: QuizSource = "failed"
        try:
            answer, source = await self._answered(asked, examine)
        except CallError as error:
            stage = "retrieve" if isinstance(error, _SearchError) else "answer"
            note(stage, error.cause, error.message, "left the quiz unanswered", quiz.index)
        report(QuizAnswered(quiz.index, text, answer, source))
        checked = self.declines and source == "passages"
        return QuizRecord(
            index=quiz.index,
            text=quiz.text,
            resolved=text,
            depends_on=list(quiz.depends_on),
            passages=asked.passages,
            answer=answer,
            abstained=answer is not None and not checked and is_abstention(answer, choices),
            source=source,
            **({} if asked.found is None else self._recorded(asked.found)),
            **asked.fields,
        )

    async def _answered(self, asked: _Asked, examine: bool) -> tuple[str | None, QuizSource]:
        index, text = asked.quiz.index, asked.text
        # Documents of one's own may be searched before anything is drawn.
        looks = examine and self.declines and self.settings.look_first and isinstance(self.gate, VoteGate)
        hits = await self._search(asked) if looks else None
        about = spoken_in([hit.passage for hit in hits], text) if hits else []
        if about:
            asked.fields["stopped"] = f"not asked from memory: the documents speak of {', '.join(about)}"
        elif examine:
            if asked.draft is None:
                found = await self.examination.acall(*asked.what, number=index, predictor=self._own("quiz"))
            else:
                found = await self.examination.of_draft(asked.draft, *asked.what, index, outdated=asked.outdated)
            asked.found = found
            report(QuizExamined(index, text, found.known, found.leading, float(found.consistency)))
            if found.known:
                recalled, source = await self._from_memory(asked)
                return recalled, "memory" if source == "largest_cluster" else source
        return await self._from_passages(asked, await self._search(asked) if hits is None else hits)

    async def _search(self, asked: _Asked) -> list[Hit]:
        retriever = self._retriever.value
        if retriever is None:
            return []
        try:
            return await searched(retriever, asked.text, self.settings.top_k, asked.quiz.index)
        except CallError as error:
            raise _SearchError(error.cause, error.message) from error

    async def _from_passages(self, asked: _Asked, hits: list[Hit]) -> tuple[str | None, QuizSource]:
        """Lines 8 to 16; where nothing is to be guessed, an answer that the passages carry, or none."""
        text, number = asked.text, asked.quiz.index
        cited = None if self.citing is None or not hits else await self._cited(asked, hits, self.citing)
        if self.citing is None:
            hits, asked.passages = await self._picked(asked, hits)
        asked.fields["retrieved"] = self._retriever.value is not None
        report(PassagesKept(number, text, len(hits), tuple(one.passage_id for one in asked.passages if one.kept)))
        picked = [hit.passage for hit, verdict in zip(hits, asked.passages, strict=True) if verdict.kept]
        answer = cited if cited is not None or not picked else await self._read(asked, picked)
        if not self.declines:
            return self._kept(asked, answer) if picked else await self._from_memory(asked)
        told = answer is not None and asked.told_by(answer)
        supported = told and asked.fields.get("supported") is not False
        contested = contradicting(text, asked.passages, answer if supported else None)
        if supported and not contested:
            return answer, "passages"
        memory = None if asked.found is None else asked.found.leading
        # A question that was not taken apart, or is asked once more as a whole, is no part of anything.
        place, searched = 0 if asked.whole else number, self._retriever.value is not None
        missing = missing_quiz(place, text, asked.passages, asked.fields.get("support", ""), contested, searched)
        asked.fields |= {"missing": missing, "guess": answer if told else memory}
        return None, "unanswered"

    def _kept(self, asked: _Asked, answer: str | None) -> tuple[str | None, QuizSource]:
        """The answer from passages, or the one from memory where the arbiter finds that more probably right."""
        found = weighed(self.settings.arbiter, asked.text, asked.found, answer, asked.what[1:])
        if found is None:
            return answer, "passages"
        asked.fields["weighed"] = found
        return (found.memory, "memory") if found.kept == "memory over evidence" else (answer, "passages")

    async def _picked(self, asked: _Asked, hits: list[Hit]) -> tuple[list[Hit], list[PassageVerdict]]:
        """The passages that were found, and which of them are read."""
        settings, text = self.settings, asked.text
        verdicts = unjudged(hits)
        if settings.pick:
            judging = {} if self.documents is None else {"shown": self.documents.shown}
            verdicts = await self.picking.acall(text, hits, asked.quiz.index, **judging)
        verdicts = self._with_top(verdicts)
        if self.declines:
            verdicts = without_older(text, self._reread(text, verdicts))
        if settings.extract_sentences is None:
            return hits, verdicts
        return with_key_sentences(text, hits, verdicts, settings.extract_sentences, self.similarity)

    def _with_top(self, verdicts: list[PassageVerdict]) -> list[PassageVerdict]:
        """Have the top passage read where none helps and that is wanted."""
        top = self.settings.on_nothing_helpful == "top_passage" and not self.declines
        if not top or not verdicts or any(one.kept for one in verdicts):
            return verdicts
        return with_kept(verdicts, 0, "the top passage, as none was found to help")

    async def _cited(self, asked: _Asked, hits: list[Hit], citing: Citing) -> str | None:
        """Read the passages found in one call, and keep those that its answer cites; None where that is no answer."""
        text, number, documents = asked.text, asked.quiz.index, self.documents
        verdicts = unjudged(hits, "not read: of too many, the first were")
        if self.declines:
            verdicts = without_older(text, verdicts)
        # Unreliable sources come last.
        doubted = self.picking.doubted(hits)
        order = sorted((place for place, one in enumerate(verdicts) if one.kept), key=doubted.__getitem__)
        passages = [hits[place].passage for place in order]
        shown = [one.rendered if documents is None else documents.shown(one) for one in passages]
        try:
            own = documents is not None
            answer, cited, read = await citing.acall(text, shown, *asked.what[1:], number, own=own)
        except CallError as error:
            why = "no reply to it could be used"
            asked.passages = [verdict_on(hit, "failed", kept=False, why=why) for hit in hits]
            if not (self.declines and error.unusable) or (error.reply is not None and not error.reply.strip()):
                raise
            note("answer", error.cause, error.message, "found no answer in the passages", number)
            asked.fields["support"] = NO_REPLY
            return None
        why = "cited for an answer"
        if documents is not None and asked.what[1] == "short" and not is_abstention(answer):
            found = carrying(answer, text, passages[:read], cited)
            if found is not None:
                cited, why = found, "has the words of the answer, which does not cite it"
        asked.passages = _with_cited(verdicts, order, read, cited, why)
        if cited and asked.told_by(answer):
            if documents is not None:
                await self._check(asked, answer, [shown[position] for position in cited])
            return str(answer)
        if not cited and not is_abstention(answer, asked.what[2]):
            note("answer", "NoCitation", f"{answer!r} cites no passage", "took it for no answer", number)
        asked.passages = self._with_top(_with_cited(verdicts, order, read, (), why))
        return None

    def _reread(self, text: str, verdicts: list[PassageVerdict]) -> list[PassageVerdict]:
        """Have the best passages read where none helps and they speak of what is asked: the answer is checked."""
        best = [one for one in verdicts if one.verdict == "not helpful"][:_REREAD]
        judged = self._own("answer") is not None and not any(one.kept for one in verdicts)
        if judged and spoken_in(best, text):
            for one in best:
                why = "read all the same: none was judged helpful, and they speak of what is asked"
                verdicts = with_kept(verdicts, verdicts.index(one), why)
        return verdicts

    async def _read(self, asked: _Asked, picked: Sequence[Passage]) -> str | None:
        """An answer from passages; None where nothing is to be guessed and no reply to them could be used."""
        select, documents, number = self.settings.select, self.documents, asked.quiz.index
        text, *wanted = asked.what
        passages = [one.rendered for one in picked]
        triples, evidence = await self.selection.acall(text, passages, number) if select else ([], [])
        if select:
            asked.fields |= {"triples": triples, "evidence": evidence}
        if documents is not None:
            passages = [documents.shown(one) for one in picked]
        knowledge = {"evidence": evidence, "triples": triples}
        try:
            read = [] if evidence and select == "instead" else passages
            own = self._own("answer")
            # What is checked yet is no answer.
            asking = {"number": number, "predictor": own, "told": asked.whole and not self.declines}
            answer = await self.answering.acall(text, read, *wanted, **knowledge, **asking)
        except CallError as error:
            # An LM that is down, or mute, says nothing of the passages.
            mute = error.reply is not None and not error.reply.strip()
            judged = any(one.verdict in ("helpful", "not helpful") for one in asked.passages)
            if not (self.declines and error.unusable) or (mute and not judged):
                raise
            note("answer", error.cause, error.message, "found no answer in the passages", number)
            asked.fields["support"] = NO_REPLY
            return None
        if asked.told_by(str(answer)):
            await self._check(asked, str(answer), passages)
        return str(answer)

    async def _check(self, asked: _Asked, answer: str, passages: Sequence[str]) -> None:
        """Find out whether passages of one's own documents carry an answer."""
        if self.documents is not None:
            text, *wanted = asked.what
            support = await self.documents.acall(text, answer, passages, *wanted, asked.quiz.index)
            asked.fields["supported"], asked.fields["support"] = support

    def _own(self, name: str) -> Any:
        """The predictor of that name for one's own documents; None where the paper's is asked."""
        documents = self.documents
        return getattr(documents, name) if documents is not None and documents.own_prompts else None

    async def _from_memory(self, asked: _Asked) -> tuple[str, QuizSource]:
        """The largest cluster of all draws, or a closed-book answer where there is none or that is wanted."""
        found = asked.found
        if found is None and asked.draft is not None:
            return str(asked.draft.text), "closed_book"
        if found is not None and (found.known or self.settings.on_nothing_helpful != "closed_book"):
            if not found.known:
                await self.examination.complete(found)
            if found.leading is not None:
                return found.leading, "largest_cluster"
        return await self.examination.recall(*asked.what), "closed_book"

    def _recorded(self, found: Examined) -> dict[str, Any]:
        gate, threshold = self.gate, self.gate.threshold
        names = ("text", "abstained", "cluster", "error", "probability")
        return {
            "samples": [SampleRecord(**{name: getattr(draw, name) for name in names}) for draw in found.made],
            "clusters": [
                ClusterRecord(answer=str(found.made[members[0]].text), size=len(members), members=members)
                for members in found.clusters
            ],
            "tries": found.tries,
            "complete": found.left == 0,
            "drafted": found.drafted,
            "stopped": found.stopped,
            "consistency": float(found.consistency),
            "consistency_exact": fraction_text(found.consistency),
            "threshold": None if threshold is None else float(threshold),
            "threshold_exact": None if threshold is None else fraction_text(threshold),
            "gate": gate.name,
            "certainty": found.verdict.measure,
            "known": found.known,
        }


def _answers(quizzes: Sequence[QuizRecord]) -> list[tuple[str, str]]:
    """The resolved quizzes that have an answer, with it."""
    return [(one.resolved, one.answer) for one in quizzes if one.resolved and one.answer and not one.abstained]


def _with_cited(
    verdicts: Sequence[PassageVerdict], order: Sequence[int], read: int, cited: Collection[int], why: str
) -> list[PassageVerdict]:
    """The verdicts on passages, of which the first so many were read in an order, by the positions that are cited."""
    found = list(verdicts)
    for position, place in enumerate(order):
        kept = position in cited
        said = {"verdict": "cited" if kept else "not cited", "why": why if kept else "not cited for an answer"}
        found[place] = verdicts[place].model_copy(update={"kept": kept, **(said if position < read else {})})
    return found


def _is_an_option(draft: Draw, asked: Question) -> bool:
    """Whether a draft of the question, which was written without its options, is one of them, or none of any kind."""
    options = asked.choices or (["yes", "no"] if asked.answer_type == "yes/no" else [])
    text = draft.text or ""
    kind = (asked.answer_type, asked.choices)
    return not options or is_abstention(text, options) or any(same_answer(text, one, *kind) for one in options)


def _written_with_others(earlier: Mapping[int, QuizRecord], drafts: Mapping[int, Draw]) -> str:
    """Which of the earlier quizzes that a draft builds on has another answer than its own draft; empty for none."""
    for number, record in earlier.items():
        draft = drafts.get(number)
        if draft is not None and not same_answer(str(draft.text), str(record.answer)):
            return f"its draft was written with another answer to quiz {number}"
    return ""


def _missing(quizzes: Sequence[QuizRecord]) -> str | None:
    """What the question lacks to be summarized; from some of its quizzes alone the language model may guess."""
    sources = {record.source for record in quizzes}
    if not _answers(quizzes):
        return "no quiz could be answered"
    if "failed" in sources:
        return "a quiz failed"
    return _BLOCKED if sources & {"blocked", "skipped", "unanswered"} else None


def _unanswered(quiz: Quiz, *, blocked: bool) -> QuizRecord:
    source: QuizSource = "blocked" if blocked else "skipped"
    return QuizRecord(index=quiz.index, text=quiz.text, depends_on=list(quiz.depends_on), source=source)
