"""One quiz from its resolved text to its answer (KEQA, Algorithm 2, lines 4 to 18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from keqa.data.question import AnswerType, Question
from keqa.data.quiz_references import Quiz, place_of
from keqa.metrics.answers import is_abstention
from keqa.programs.arguments import fraction_text
from keqa.programs.records import ClusterRecord, PassageVerdict, QuizRecord, QuizSource, SampleRecord
from keqa.programs.runtime.attempts import searched
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.progress import PassagesKept, QuizAnswered, QuizExamined
from keqa.programs.runtime.session import Session
from keqa.programs.stages.answering import Answering
from keqa.programs.stages.examination import Assessment, Examination
from keqa.programs.stages.extraction import KeySentences
from keqa.programs.stages.picking import Picking, unjudged, with_kept
from keqa.programs.stages.selection import Selection
from keqa.retrievers.base import Hit, Retriever

OnNothingHelpful = Literal["largest_cluster", "closed_book", "top_passage"]
Select = Literal["beside", "instead"]

_UNANSWERED = "left the quiz unanswered"


@dataclass(frozen=True)
class QuizFlow:
    """The stages that a quiz passes, with the settings that say which of them are on.

    Attributes:
        session: The calls of the question.
        asked: The question.
        examination: Samples, clusters and judges; also answers closed-book.
        picking: Judges passages; None keeps all.
        selection: Selects evidence; None leaves it out.
        answering: Answers from passages.
        retriever: None finds nothing.
        top_k: How many passages to search for.
        examine: Whether to examine before retrieval.
        on_nothing_helpful: What answers where no passage is kept.
        select: Whether evidence goes beside the passages or, as in the KS-LLM paper, instead of them.
        extraction: Cuts passages that are kept; None leaves them whole.
    """

    session: Session
    asked: Question
    examination: Examination
    picking: Picking | None
    selection: Selection | None
    answering: Answering
    retriever: Retriever | None
    top_k: int
    examine: bool
    on_nothing_helpful: OnNothingHelpful
    select: Select | None = None
    extraction: KeySentences | None = None

    async def run(
        self, quiz: Quiz, text: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()
    ) -> QuizRecord:
        """Answer a quiz; one that cannot be answered has source ``failed``, and a degradation says why.

        One that is not known is answered from passages. Where finding or reading them failed it is not answered at all:
        from memory it would be as if it had been known. See `keqa.programs.runtime.attempts`.

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
            if self.examine:
                place = place_of(self.asked.question, self.asked.choices, quiz.index)
                found = await self.examination.acall(*asked, number=quiz.index, place=place, session=self.session)
                consistency = float(found.votes.consistency)
                self.session.report(QuizExamined(quiz.index, text, bool(found.known), found.answer, consistency))
            if found is not None and found.known:
                answer, source = await self._from_memory(found, asked)
                source = "memory" if source == "largest_cluster" else source
            else:
                answer, source = await self._from_passages(quiz, asked, found, fields)
        except CallError as error:
            self.session.note("answer", error.cause, error.message, _UNANSWERED, quiz.index)
        self.session.report(QuizAnswered(quiz.index, text, answer, source))
        return QuizRecord(
            index=quiz.index,
            text=quiz.text,
            resolved=text,
            depends_on=list(quiz.depends_on),
            answer=answer,
            abstained=answer is not None and is_abstention(answer, choices),
            source=source,
            **({} if found is None else self._examined(found)),
            **fields,
        )

    async def _from_passages(
        self, quiz: Quiz, asked: tuple[str, AnswerType, list[str]], found: Assessment | None, fields: dict[str, Any]
    ) -> tuple[str | None, QuizSource]:
        """Lines 8 to 16."""
        text, answer_type, choices = asked
        hits: list[Hit] = []
        if self.retriever is not None:
            try:
                hits = await searched(self.session, self.retriever, text, self.top_k, quiz.index)
            except CallError as error:
                self.session.note("retrieve", error.cause, error.message, _UNANSWERED, quiz.index)
                return None, "failed"
        verdicts = unjudged(hits)
        if self.picking is not None:
            verdicts = await self.picking.acall(text, hits, quiz.index, session=self.session)
        if hits and self.on_nothing_helpful == "top_passage" and not any(verdict.kept for verdict in verdicts):
            verdicts = with_kept(verdicts, 0, "the top passage, as none was judged helpful")
        if self.extraction is not None:
            hits, verdicts = self.extraction.cut(text, hits, verdicts)
        fields |= {"retrieved": self.retriever is not None, "passages": verdicts}
        kept = tuple(verdict.passage_id for verdict in verdicts if verdict.kept)
        self.session.report(PassagesKept(quiz.index, text, len(verdicts), kept))
        passages = _kept(hits, verdicts)
        if not passages:
            return await self._from_memory(found, asked)
        if self.selection is not None:
            chosen = await self.selection.acall(text, passages, quiz.index, session=self.session)
            fields |= dict(zip(("triples", "evidence"), chosen, strict=True))
        evidence = fields.get("evidence", [])
        answer = await self.answering.acall(
            text,
            [] if evidence and self.select == "instead" else passages,
            answer_type,
            choices,
            evidence=evidence,
            triples=fields.get("triples", []),
            number=quiz.index,
            session=self.session,
        )
        return str(answer), "passages"

    async def _from_memory(
        self, found: Assessment | None, asked: tuple[str, AnswerType, list[str]]
    ) -> tuple[str, QuizSource]:
        """The largest cluster of all draws, or a closed-book answer where there is none or that is wanted."""
        if found is not None and (found.known or self.on_nothing_helpful != "closed_book"):
            if not found.known:
                await self.examination.complete(self.session, found)
            if found.answer is not None:
                return found.answer, "largest_cluster"
        return await self.examination.recall(self.session, *asked), "closed_book"

    def _examined(self, found: Assessment) -> dict[str, Any]:
        votes, threshold = found.votes, self.examination.gate.threshold
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
            "threshold": None if threshold is None else float(threshold),
            "threshold_exact": None if threshold is None else fraction_text(threshold),
            "gate": self.examination.gate.name,
            "certainty": found.certainty,
            "known": found.known,
        }


def _kept(hits: Sequence[Hit], verdicts: Sequence[PassageVerdict]) -> list[str]:
    return [hit.passage.rendered for hit, verdict in zip(hits, verdicts, strict=True) if verdict.kept]
