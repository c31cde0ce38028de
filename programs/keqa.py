"""KEQA: question answering with knowledge evaluation (KEQA, AAAI 2025, Algorithm 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar, cast

import dspy

from keqa.data.question import Question
from keqa.data.quiz_references import Quiz, resolvable, resolve
from keqa.data.quiz_references import check as check_references
from keqa.metrics.answers import is_abstention
from keqa.programs.arguments import (
    GATE,
    LMS,
    REFERENCE,
    RETRIEVER,
    SIMILARITY,
    Characters,
    Count,
    Seed,
    Steps,
    Temperature,
    Threshold,
    TopK,
    TopP,
    Tries,
    Word,
    Workers,
    check,
    checked,
)
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.progress import QuizFound
from keqa.programs.calls.session import NoCopy, current, joined, note, report
from keqa.programs.gates import Gate, VoteGate, as_fraction
from keqa.programs.gates.registry import questions
from keqa.programs.kept import Kept
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import Program, RecordBuilder, UnansweredError
from keqa.programs.records import AnswerSource, QuizRecord, QuizSource
from keqa.programs.stages.answering import Answering, Decomposition, Summarizing
from keqa.programs.stages.documents import OwnDocuments
from keqa.programs.stages.examination import Examination
from keqa.programs.stages.listwise import Listwise
from keqa.programs.stages.picking import Picking, Reference
from keqa.programs.stages.quiz_flow import OnNothingHelpful, QuizFlow, Select
from keqa.programs.stages.selection import Selection, Similarity
from keqa.programs.stages.stage import RoleLMs
from keqa.programs.unanswered import WaysOut, unanswered_of
from keqa.retrievers.base import Retriever

_FALLBACK = "answered the question itself with retrieval"
_BLOCKED = "a quiz is blocked"


@checked
class KEQA(Program):
    """Quizzes the language model, retrieves what it does not know, keeps what helps, and concludes.

    Every part is a stage of its own that is always there, so that a saved state fits whichever parts are on; only what
    a gate brings along (`optional`) comes and goes. Each argument of the constructor can be read and assigned as an
    attribute, but for `workers`, which the questions being asked share.
    """

    method: ClassVar[str] = "keqa"

    top_k, decompose, examine, pick = Kept(), Kept(), Kept(), Kept()
    extract_sentences, on_nothing_helpful, look_first = Kept(), Kept(), Kept()
    summarize_single, summarize_known = Kept(), Kept()
    max_question_chars = Kept()
    tries = Kept("examination")
    temperature = Kept("examination")
    top_p = Kept("examination")
    seed = Kept("examination")
    gate = Kept("examination")
    listwise = Kept("picking")
    prefer_reliable = Kept("picking")
    reference = Kept("picking")
    evidence_sentences = Kept("selection", "keep")
    similarity = Kept("selection")
    max_quizzes = Kept("decomposition")

    def __init__(
        self,
        retriever: Annotated[Retriever, RETRIEVER] | None,
        *,
        lms: Annotated[RoleLMs, LMS] | None = None,
        tries: Tries = 5,
        threshold: Annotated[Fraction | float | str, Threshold] = "0.8",
        top_k: TopK = 10,
        temperature: Temperature = 1.0,
        top_p: TopP | None = None,
        decompose: bool = True,
        examine: bool = True,
        pick: bool = True,
        listwise: bool = False,
        prefer_reliable: bool = False,
        gate: Annotated[Gate, GATE] | None = None,
        select: bool | Select = False,
        evidence_sentences: Count = 2,
        similarity: Annotated[Similarity, SIMILARITY] | Word | None = None,
        reference: Annotated[Reference, REFERENCE] | None = None,
        extract_sentences: Count | None = None,
        on_nothing_helpful: OnNothingHelpful = "largest_cluster",
        unanswered: WaysOut | None = None,
        look_first: bool = True,
        summarize_single: bool = False,
        summarize_known: bool = False,
        max_quizzes: Steps = 8,
        max_question_chars: Characters = 8000,
        workers: Workers = 16,
        seed: Seed = 0,
        demonstrations: bool = True,
    ) -> None:
        """Set up; the defaults are the paper's.

        Args:
            retriever: Where unknown knowledge comes from; with None the program has its memory only.
            lms: A language model for each role; ``dspy.settings.lm`` where None.
            tries: N_c, tries at each quiz.
            threshold: α, as an exact fraction: 0.8, "0.8" and "4/5" are the same.
            top_k: Passages to search for.
            temperature: Of the tries.
            top_p: Of the tries, where set.
            decompose: Off, the question is its own quiz (for data sets of one hop).
            examine: Off, nothing is taken for known and every quiz is retrieved for.
            pick: Off, all passages found are kept.
            listwise: Judge the passages found for a quiz in one call, and not each in a call of its own; those that the
                reply says nothing of are judged by themselves.
            prefer_reliable: Whether passages of sources that seldom helped, or as old as such, by the labels of the
                reference, are left out where others were judged helpful.
            gate: Instead of KEQA's vote gate; `threshold` is then the gate's own affair.
            select: True or ``beside`` adds evidence sentences and triples to the passages (KS-LLM), ``instead`` puts
                them in the passages' place.
            evidence_sentences: How many sentences to select.
            similarity: Compares triples, or with `extract_sentences` the quiz, with sentences: by words where None, by
                the embeddings of KS-LLM's equations 2 and 3 where it is the name of an embedder, such as
                ``local/minilm`` (see `keqa.programs.reference.embedding.open_embedder`), or a function of your own.
            reference: The utility reference: from a quiz and a passage to demonstrations.
            extract_sentences: Cut each passage that is kept down to so many sentences closest to the quiz (the paper's
                KEQA w SE).
            on_nothing_helpful: What answers where no passage is kept: the largest cluster of tries, a closed-book
                answer, or the top passage. Without a cluster it is a closed-book answer. It is a guess, and only where
                `unanswered` allows guesses.
            unanswered: What is done where the documents do not say what was asked: ``say`` so, ``guess`` as the paper
                does, or ``raise`` a `keqa.NotInDocumentsError`. By default ``say`` over documents of one's own, and
                ``guess`` over those of the testbed or a benchmark, and without a retriever.
            look_first: Unless guesses are wanted, search for a quiz before it is examined, and read it from the
                passages without an examination where its names, numbers or words stand in them: what somebody's
                documents speak of, a language model only seems to know. It has no effect beside a gate of your own,
                such as a boundary model.
            summarize_single: Summarize a question that is its own only quiz too, as the printed algorithm does and the
                authors' code does not: the summary is what gives the answer its form. Without decomposition it has no
                effect.
            summarize_known: Where a quiz is blocked, conclude from those that are answered; only a question that these
                do not settle is answered by itself.
            max_quizzes: Further quizzes of a decomposition are left out.
            max_question_chars: Longer questions are refused.
            workers: How many calls to language models and retriever may be in flight, over all questions.
            seed: Another seed draws other tries.
            demonstrations: Whether predictors that learned none show the fixed demonstrations that ship to any language
                model but the one that ships. Where there is a utility reference, the judge of utility is shown its
                demonstrations only.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(lms, workers, max_question_chars)
        bound = self.bound
        self.decomposition = Decomposition(max_quizzes, bound)
        chosen = gate or VoteGate(as_fraction(threshold))
        self.examination = Examination(tries, chosen, temperature, top_p, seed, bound)
        self.picking = Picking(reference, bound, listwise)
        self.picking.prefer_reliable = prefer_reliable
        self.selection = Selection(evidence_sentences, similarity, bound)
        self.answering = Answering(bound)
        self.summarizing = Summarizing(bound)
        self.extract_sentences = extract_sentences
        self._retriever = NoCopy(retriever)
        self.top_k, self.on_nothing_helpful, self.look_first = top_k, on_nothing_helpful, look_first
        self.decompose, self.examine, self.pick = decompose, examine, pick
        self.demonstrations = demonstrations
        self.summarize_single, self.summarize_known = summarize_single, summarize_known
        self.select = select
        self.documents: OwnDocuments | None = None
        self.unanswered = unanswered
        self.bind_lms(lms)

    @property
    def threshold(self) -> Fraction | None:
        """α of the gate, None where the gate has none; assigned, it is that of KEQA's vote gate."""
        return getattr(self.gate, "threshold", None)

    @threshold.setter
    def threshold(self, threshold: Fraction | float | str) -> None:
        read = check(KEQA, {"threshold": threshold}, "KEQA")["threshold"]
        self.gate = VoteGate(as_fraction(read))

    @property
    def unanswered(self) -> WaysOut | None:
        """What is done where the documents do not say what was asked; None where that goes by the retriever."""
        found: WaysOut | None = vars(self)["unanswered"]
        return found

    @unanswered.setter
    def unanswered(self, way: WaysOut | None) -> None:
        self.__dict__["unanswered"] = check(KEQA, {"unanswered": way}, "KEQA")["unanswered"]
        self.fit_documents()

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
    def way_out(self) -> WaysOut:
        """What is done where the documents do not say what was asked; where that is not set, by the retriever."""
        if self.unanswered is not None:
            return self.unanswered
        retriever = self.given_retriever
        return "guess" if retriever is None or not getattr(retriever, "own_documents", True) else "say"

    @property
    def declines(self) -> bool:
        """Whether nothing is answered that neither the language model knows nor the documents say."""
        return self.way_out != "guess"

    @property
    def select(self) -> Select | None:
        """How KS-LLM's evidence is used; None where it is not selected."""
        found: Select | None = vars(self)["select"]
        return found

    @select.setter
    def select(self, select: bool | Select) -> None:
        read = check(KEQA, {"select": select or False}, "KEQA")["select"]
        self.__dict__["select"] = "beside" if read is True else read or None

    @property
    def demonstrations(self) -> bool:
        """Whether predictors that learned none show the fixed demonstrations."""
        return bool(vars(self)["demonstrations"])

    @demonstrations.setter
    def demonstrations(self, shown: bool) -> None:
        self.__dict__["demonstrations"] = check(KEQA, {"demonstrations": shown}, "KEQA")["demonstrations"]
        for predictor in self.predictors():
            if isinstance(predictor, Predictor):
                predictor.fixed = shown

    @property
    def workers(self) -> int:
        """How many calls may be in flight; given to the constructor."""
        return self.bound.workers

    @property
    def retriever(self) -> Any:
        """As `given_retriever`; assigned as by `bind_retriever`."""
        return self.given_retriever

    @retriever.setter
    def retriever(self, retriever: Any) -> None:
        self.bind_retriever(retriever)

    @property
    def lms(self) -> RoleLMs | None:
        """The language model of each role, None where ``dspy.settings.lm`` answers; assigned as by `bind_lms`."""
        return self._lms.value

    @lms.setter
    def lms(self, lms: RoleLMs | None) -> None:
        self.bind_lms(check(KEQA, {"lms": lms}, "KEQA")["lms"])

    @property
    def optional(self) -> Mapping[str, type[dspy.Signature]]:
        """The predictors that gates and the listwise judge bring along; what was saved without knows none of them."""
        asked = {name: signature for one in questions() for name, signature in one.predictors_by_name().items()}
        parts = {"picking.together": Listwise.signatures, "documents": OwnDocuments.signatures}
        return asked | {f"{part}.{name}": one for part, named in parts.items() for name, one in named.items()}

    async def solve(self, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 2; see `Program.solve`."""
        quizzes = [Quiz(1, asked.question)]
        if self.decompose:
            own = {} if self.documents is None else {"own": True}
            quizzes = await self.decomposition.acall(asked.question, **own)
            for quiz in quizzes:
                report(QuizFound(quiz.index, quiz.text, tuple(quiz.depends_on)))
        flow = QuizFlow(asked, self, self.examine)
        if [quiz.text for quiz in quizzes] == [asked.question]:
            record = await flow.run(quizzes[0], asked.question, asked.answer_type, asked.choices)
            story.quizzes = [record]
            summarized = self.decompose and self.summarize_single and _answers([record])
            otherwise = "took the quiz's answer for the answer"
            if not (summarized and await self._summarize(asked, story, otherwise)):
                _conclude(asked, story, record)
            return
        story.quizzes = await self._answer_quizzes(flow, quizzes)
        missing = _missing(story.quizzes)
        # What the documents do not say of a part is not made good by the other parts.
        if missing == _BLOCKED and self.summarize_known and not any(quiz.missing for quiz in story.quizzes):
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

    async def _summarize(self, asked: Question, story: RecordBuilder, otherwise: str, *, settles: bool = True) -> bool:
        """Conclude from the answered quizzes.

        Args:
            asked: The question.
            story: Takes explanation and answer.
            otherwise: What is done instead where there is no summary.
            settles: Whether a summary that says that it does not know is an answer as well.

        Returns:
            Whether there is an answer.

        Raises:
            UnansweredError: The language model could not be asked.
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
        flow = QuizFlow(asked, self, examine=False)
        story.fallback = await flow.run(Quiz(0, asked.question), asked.question, asked.answer_type, asked.choices)
        if failed and self.given_retriever is not None and story.fallback.source in ("closed_book", "unanswered"):
            message = "a part of it failed, and no passage helped with the question itself"
            raise UnansweredError("answer", "NoPassagesError", message)
        _conclude(asked, story, story.fallback)

    async def _answer_quizzes(self, flow: QuizFlow, quizzes: Sequence[Quiz]) -> list[QuizRecord]:
        """Answer each quiz as soon as those that it refers to are answered."""
        problems = check_references(quizzes)
        for problem in problems:
            action = "blocked the quiz" if problem.fatal else "put the quiz after the one that it refers to"
            note("references", problem.cause, problem.message, action, problem.quiz)
        sound = resolvable(quizzes)
        if any(problem.fatal for problem in problems) and not self.summarize_known:
            # The question has to be answered by itself in any case, so no quiz is worth a call.
            return [_unanswered(quiz, blocked=quiz.index not in sound) for quiz in quizzes]
        tasks: dict[int, asyncio.Task[QuizRecord]] = {}

        async def follow(quiz: Quiz) -> QuizRecord:
            if quiz.index not in sound:
                return _unanswered(quiz, blocked=True)
            earlier = {number: await tasks[number] for number in quiz.depends_on}
            text = resolve(quiz, {number: None if r.abstained else r.answer for number, r in earlier.items()})
            if text is None:
                missing = ", ".join(f"#{n}" for n, r in earlier.items() if r.abstained or r.answer is None)
                note("references", "Unanswered", f"no answer to {missing}", "blocked the quiz", quiz.index)
                return _unanswered(quiz, blocked=True)
            return await flow.run(quiz, text)

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
