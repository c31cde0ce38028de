"""One quiz from its resolved text to its answer (KEQA, Algorithm 2, lines 4 to 18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from keqa.data.question import AnswerType, Question
from keqa.data.quiz_references import Quiz, place_of
from keqa.metrics.answers import is_abstention, same_answer
from keqa.programs.arguments import fraction_text
from keqa.programs.calls.ask import searched
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.progress import PassagesKept, QuizAnswered, QuizExamined
from keqa.programs.calls.session import note, report
from keqa.programs.gates import VoteGate
from keqa.programs.records import (
    ClusterRecord,
    MissingQuiz,
    PassageVerdict,
    QuizRecord,
    QuizSource,
    SampleRecord,
    UnansweredKind,
)
from keqa.programs.sentences import OTHER_WORDS, disagreements, newer, without_older
from keqa.programs.sources import source_of
from keqa.programs.stages.assessment import Assessment
from keqa.programs.stages.documents import UNREADABLE, words_lacking
from keqa.programs.stages.picking import unjudged, with_kept
from keqa.programs.stages.selection import with_key_sentences
from keqa.programs.subjects import spoken_of
from keqa.retrievers.base import Hit, Passage

if TYPE_CHECKING:
    from keqa.programs.keqa import KEQA


_UNANSWERED = "left the quiz unanswered"
_NO_REPLY = "no reply could be used"
_REREAD = 3


class _SearchError(CallError):
    """A search failed, which does not mean that nothing was found."""


def _contradicting(quiz: str, passages: Sequence[PassageVerdict], answer: str | None) -> list[str]:
    """What two passages say otherwise of a quiz, each with its place, where no date decides between them.

    One of them at least was kept. Where there is an answer, it is what one of them says and the other does not, and
    they differ in nothing else: a rule for managers contradicts none.
    """
    other_words = OTHER_WORDS if answer is None else 0
    for first, second in combinations([one for one in passages if not one.older_than], 2):
        if not (first.kept or second.kept) or newer(first.date, second.date) is not None:
            continue
        for found in disagreements(first, second, quiz, other_words):
            said = [answer is None or not words_lacking(answer, [one]) for one in (found.first, found.second)]
            if answer is None or said[0] != said[1]:
                return [f"“{found.first}” ({source_of(first).label})", f"“{found.second}” ({source_of(second).label})"]
    return []


def _tells(answer: str, quiz: str, choices: Sequence[str], passages: Sequence[PassageVerdict]) -> bool:
    """Whether an answer from passages is one: it does not refuse, or says in their words more than was asked."""
    if not is_abstention(answer, choices):
        return True
    kept = [_told_by(one) for one in passages if one.kept]
    more = words_lacking(answer, [quiz])
    return bool(kept) and not same_answer(answer, "unknown") and bool(more) and not words_lacking(answer, kept)


def _carried(support: str) -> str:
    """What came of reading passages in vain; not what was drawn from them, which nobody shall take for an answer."""
    if support == _NO_REPLY:
        return f"were read, but {_NO_REPLY}"
    if support.endswith(UNREADABLE):
        return "lack words of what was drawn from them, and the judge’s reply could not be read"
    return "do not support what was drawn from them" if support else "do not tell it, by the reply"


def _told_by(passage: Passage | PassageVerdict) -> str:
    """All that a passage says of what it is about."""
    return " ".join((passage.title, passage.place.heading, passage.text))


@dataclass(frozen=True)
class QuizFlow:
    """The stages of a program that a quiz passes, where its settings have them on.

    Attributes:
        asked: The question.
        program: Whose stages and settings these are.
        examine: Whether to examine before retrieval.
    """

    asked: Question
    program: KEQA
    examine: bool

    async def run(
        self, quiz: Quiz, text: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()
    ) -> QuizRecord:
        """Answer a quiz; one that cannot be answered has source ``failed``, and a degradation says why.

        One that is not known is answered from passages. Where finding or reading them failed it is not answered at all:
        from memory it would be as if it had been known. See `keqa.programs.calls.ask`.

        Args:
            quiz: As decomposed.
            text: Resolved.
            answer_type: What kind of answer it wants.
            choices: The options of a choice.
        """
        asked = (text, answer_type, list(choices))
        fields: dict[str, Any] = {}
        found: Assessment | None = None
        answer: str | None = None
        source: QuizSource = "failed"
        try:
            hits = await self._search(quiz, text) if self._looks else None
            about = spoken_of(text, [_told_by(hit.passage) for hit in hits]) if hits else []
            if about:
                fields["stopped"] = f"not asked from memory: the documents speak of {', '.join(about)}"
            elif self.examine:
                place = place_of(self.asked.question, self.asked.choices, quiz.index)
                found = await self.program.examination.acall(
                    *asked, number=quiz.index, place=place, predictor=self._own("quiz")
                )
                consistency = float(found.votes.consistency)
                report(QuizExamined(quiz.index, text, bool(found.known), found.answer, consistency))
            if found is not None and found.known:
                answer, source = await self._from_memory(found, asked)
                source = "memory" if source == "largest_cluster" else source
            else:
                hits = await self._search(quiz, text) if hits is None else hits
                answer, source = await self._from_passages(quiz, asked, found, fields, hits)
                if self.program.declines and source != "failed":
                    answer, source = self._checked(quiz, asked, found, fields, answer)
        except CallError as error:
            stage = "retrieve" if isinstance(error, _SearchError) else "answer"
            note(stage, error.cause, error.message, _UNANSWERED, quiz.index)
        report(QuizAnswered(quiz.index, text, answer, source))
        checked = self.program.declines and source == "passages"
        return QuizRecord(
            index=quiz.index,
            text=quiz.text,
            resolved=text,
            depends_on=list(quiz.depends_on),
            answer=answer,
            abstained=answer is not None and not checked and is_abstention(answer, choices),
            source=source,
            **({} if found is None else self._examined(found)),
            **fields,
        )

    @property
    def _looks(self) -> bool:
        """Whether the documents are searched before anything is drawn."""
        program = self.program
        return self.examine and program.declines and program.look_first and isinstance(program.gate, VoteGate)

    async def _search(self, quiz: Quiz, text: str) -> list[Hit]:
        retriever = self.program.given_retriever
        if retriever is None:
            return []
        try:
            return await searched(retriever, text, self.program.top_k, quiz.index)
        except CallError as error:
            raise _SearchError(error.cause, error.message) from error

    async def _from_passages(
        self,
        quiz: Quiz,
        asked: tuple[str, AnswerType, list[str]],
        found: Assessment | None,
        fields: dict[str, Any],
        hits: list[Hit],
    ) -> tuple[str | None, QuizSource]:
        """Lines 8 to 16; without an answer where no passage helps and nothing is to be guessed."""
        program, (text, answer_type, choices) = self.program, asked
        verdicts = unjudged(hits)
        if program.pick:
            judging = {} if program.documents is None else {"shown": program.documents.shown}
            verdicts = await program.picking.acall(text, hits, quiz.index, **judging)
        top = program.on_nothing_helpful == "top_passage" and not program.declines
        if hits and top and not any(verdict.kept for verdict in verdicts):
            verdicts = with_kept(verdicts, 0, "the top passage, as none was judged helpful")
        if program.declines:
            verdicts = without_older(text, self._reread(text, verdicts))
        if program.extract_sentences is not None:
            keep, similarity = program.extract_sentences, program.selection.similarity
            hits, verdicts = with_key_sentences(text, hits, verdicts, keep, similarity)
        fields |= {"retrieved": program.given_retriever is not None, "passages": verdicts}
        kept = tuple(verdict.passage_id for verdict in verdicts if verdict.kept)
        report(PassagesKept(quiz.index, text, len(verdicts), kept))
        picked = [hit.passage for hit, verdict in zip(hits, verdicts, strict=True) if verdict.kept]
        passages = [one.rendered for one in picked]
        if not passages:
            return (None, "unanswered") if program.declines else await self._from_memory(found, asked)
        if program.select:
            chosen = await program.selection.acall(text, passages, quiz.index)
            fields |= dict(zip(("triples", "evidence"), chosen, strict=True))
        evidence = fields.get("evidence", [])
        if program.documents is not None:
            passages = [program.documents.shown(one) for one in picked]
        try:
            answer = await program.answering.acall(
                text,
                [] if evidence and program.select == "instead" else passages,
                answer_type,
                choices,
                evidence=evidence,
                triples=fields.get("triples", []),
                number=quiz.index,
                predictor=self._own("answer"),
            )
        except CallError as error:
            self._unread(error, quiz, fields)
            return None, "passages"
        if program.documents is not None and _tells(str(answer), text, choices, verdicts):
            fields["supported"], fields["support"] = await program.documents.acall(
                text, answer, passages, answer_type, choices, quiz.index
            )
        return str(answer), "passages"

    def _unread(self, error: CallError, quiz: Quiz, fields: dict[str, Any]) -> None:
        """Record that no reply to passages could be used; an LM that is down, or mute, says nothing of them."""
        mute = error.reply is not None and not error.reply.strip()
        judged = any(one.verdict in ("helpful", "not helpful") for one in fields["passages"])
        if not (self.program.declines and error.unusable) or (mute and not judged):
            raise error
        note("answer", error.cause, error.message, "found no answer in the passages", quiz.index)
        fields["support"] = _NO_REPLY

    def _reread(self, text: str, verdicts: list[PassageVerdict]) -> list[PassageVerdict]:
        """Have the best passages read where none was judged helpful, although they speak of what a quiz asks.

        The prompt may answer that they do not tell, and the answer is checked: so a judge's error costs a call
        instead of the answer.
        """
        best = [one for one in verdicts if one.verdict == "not helpful"][:_REREAD]
        judged = self._own("answer") is not None and not any(one.kept for one in verdicts)
        if judged and spoken_of(text, [_told_by(one) for one in best]):
            for one in best:
                why = "read all the same: none was judged helpful, and they speak of what is asked"
                verdicts = with_kept(verdicts, verdicts.index(one), why)
        return verdicts

    def _own(self, name: str) -> Any:
        """The predictor of that name for one's own documents; None where the paper's is asked."""
        documents = self.program.documents
        return getattr(documents, name) if documents is not None and documents.own_prompts else None

    def _checked(
        self,
        quiz: Quiz,
        asked: tuple[str, AnswerType, list[str]],
        found: Assessment | None,
        fields: dict[str, Any],
        answer: str | None,
    ) -> tuple[str | None, QuizSource]:
        """An answer that the passages carry, or why there is none."""
        text, _, choices = asked
        told = answer is not None and _tells(answer, text, choices, fields["passages"])
        supported = told and fields.get("supported") is not False
        contested = _contradicting(text, fields["passages"], answer if supported else None)
        if supported and not contested:
            return answer, "passages"
        fields["missing"] = self._missing(quiz, text, fields, contested)
        fields["guess"] = answer if told else None if found is None else found.answer
        return None, "unanswered"

    def _missing(self, quiz: Quiz, text: str, fields: dict[str, Any], contested: list[str]) -> MissingQuiz:
        passages: list[PassageVerdict] = fields["passages"]
        about = spoken_of(text, [_told_by(one) for one in passages], least=0.5)
        kept = sum(one.kept for one in passages)
        if kept:
            why = f"the passages kept ({kept}) {_carried(fields.get('support', ''))}"
        elif passages:
            why = f"none of the {len(passages)} passages found {'was judged to help' if about else 'is about it'}"
        else:
            why = "no passage was found"
        kind: UnansweredKind = "nothing supports an answer" if about or kept else "nothing found"
        if contested:
            kind, why = "sources contradict each other", "they say different things, and neither of them is newer"
        return MissingQuiz(
            # A question that was not taken apart, or is asked once more as a whole, is no part of anything.
            quiz=0 if text == self.asked.question else quiz.index,
            asked=text,
            kind=kind,
            searched=[text] if self.program.given_retriever is not None else [],
            read=[source_of(one).label for one in passages],
            why=why,
            answers=contested,
        )

    async def _from_memory(
        self, found: Assessment | None, asked: tuple[str, AnswerType, list[str]]
    ) -> tuple[str, QuizSource]:
        """The largest cluster of all draws, or a closed-book answer where there is none or that is wanted."""
        if found is not None and (found.known or self.program.on_nothing_helpful != "closed_book"):
            if not found.known:
                await self.program.examination.complete(found)
            if found.answer is not None:
                return found.answer, "largest_cluster"
        return await self.program.examination.recall(*asked), "closed_book"

    def _examined(self, found: Assessment) -> dict[str, Any]:
        votes, gate = found.votes, self.program.examination.gate
        return {
            "samples": [
                SampleRecord(
                    text=draw.text,
                    abstained=draw.abstained,
                    cluster=draw.cluster,
                    error=draw.error,
                    probability=found.probabilities.get(position),
                )
                for position, draw in enumerate(found.draws)
            ],
            "clusters": [
                ClusterRecord(answer=found.first(position), size=len(members), members=list(members))
                for position, members in enumerate(found.clusters)
            ],
            "tries": found.tries,
            "complete": votes.left == 0,
            "stopped": found.stopped,
            "consistency": float(votes.consistency),
            "consistency_exact": fraction_text(votes.consistency),
            "threshold": None if gate.threshold is None else float(gate.threshold),
            "threshold_exact": None if gate.threshold is None else fraction_text(gate.threshold),
            "gate": gate.name,
            "certainty": found.certainty,
            "known": found.known,
        }
