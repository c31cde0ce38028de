"""Self-RAG: retrieve on demand, answer from each passage by itself, and criticise (Asai et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import LMS, RETRIEVER, Characters, TopK, Weight, Workers, checked
from keqa.programs.baselines.reading import search_or_fail
from keqa.programs.baselines.reflection import Critique, Reflection
from keqa.programs.baselines.replies import Reply, examined, from_memory, from_passages, unread
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import Program, RecordBuilder, UnansweredError
from keqa.programs.records import PassageVerdict
from keqa.programs.runtime.concurrency import NoCopy
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.programs.stages.retrieval_decision import wants_retrieval
from keqa.programs.stages.stage import RoleLMs
from keqa.retrievers.base import Hit, Retriever
from keqa.signatures import (
    AnswerQuestion,
    AnswerWithKnowledge,
    DecideRetrieval,
    ReasonFromMemory,
    ReasonWithKnowledge,
)

__all__ = ["SelfRAG"]


@checked
class SelfRAG(Program):
    """Decides whether to retrieve, answers from each passage, and keeps the answer that its own critique ranks first.

    Algorithm 1 and section 3.3 of "Self-RAG: Learning to Retrieve, Generate, and Critique through Self-Reflection"
    (ICLR 2024). The paper trains a language model to write reflection tokens (Retrieve, ISREL, ISSUP, ISUSE; its table
    1). Here prompting stands in for the trained model: each token is a question of its own to the same LM. A prompt
    gives a verdict and no probabilities, so a token counts 1 where it was said; the probability of the answer is left
    out of the score, and retrieval has no threshold. A short answer is one segment, so there is no beam over segments.
    An answer from memory has no rivals and is not criticised.
    """

    method: ClassVar[str] = "self-rag"
    roles: ClassVar[Mapping[str, str]] = dict.fromkeys(("retrieve", "recall", "read"), "task")

    def __init__(
        self,
        retriever: Annotated[Retriever, RETRIEVER],
        *,
        top_k: TopK = 5,
        reason: bool = False,
        relevance_weight: Weight = 1.0,
        support_weight: Weight = 1.0,
        usefulness_weight: Weight = 0.5,
        lms: Annotated[RoleLMs, LMS] | None = None,
        max_question_chars: Characters = 8000,
        workers: Workers = 16,
    ) -> None:
        """Set up; the defaults are the paper's (section 4.3).

        Args:
            retriever: Where the passages come from.
            top_k: Passages to search for; each takes up to four calls.
            reason: Whether to reason step by step before answering.
            relevance_weight: w of ISREL in the score of section 3.3.
            support_weight: w of ISSUP.
            usefulness_weight: w of ISUSE.
            lms: Of which the task role does everything; ``dspy.settings.lm`` where None.
            max_question_chars: Longer questions are refused.
            workers: How many calls may be in flight, over all questions.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(lms, workers, max_question_chars)
        weights = (relevance_weight, support_weight, usefulness_weight)
        self.retrieve = Predictor(DecideRetrieval)
        self.recall = Predictor(ReasonFromMemory if reason else AnswerQuestion)
        self.read = Predictor(ReasonWithKnowledge if reason else AnswerWithKnowledge)
        self.reflection = Reflection(weights, self.bound)
        self.relevance_weight, self.support_weight, self.usefulness_weight = weights
        self.top_k, self.reason = top_k, reason
        self._retriever = NoCopy(retriever)
        self.bind_lms(lms)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Algorithm 1; see `Program.solve`."""
        wanted = await wants_retrieval(session, self.retrieve, asked.question)
        hits: list[Hit] = []
        if wanted:
            hits = await search_or_fail(session, self._retriever.value, asked.question, self.top_k, 1)
        replies = await session.gather([self._answered(session, asked, hit) for hit in hits])
        answered = {i: (hits[i].passage.rendered, reply.answer) for i, reply in enumerate(replies) if reply is not None}
        judged = await self.reflection.acall(asked.question, list(answered.values()), session=session)
        critiques = dict(zip(answered, judged, strict=True))
        # Of equals the first is taken: the passage that was found first.
        best = max(critiques, key=lambda i: critiques[i].score, default=None)
        reply = None if best is None else replies[best]
        if reply is None and hits:
            raise UnansweredError("answer", "NoAnswerError", "no passage that was found could be answered from")
        story.answer_source = "closed_book" if reply is None else "passages"
        if reply is None:
            try:
                reply = await from_memory(session, self.recall, asked)
            except CallError as error:
                raise UnansweredError.at("answer", error) from error
        story.answer, story.explanation = reply.answer, reply.reasoning
        story.quizzes = [
            examined(
                asked,
                gate=self.method,
                known=not wanted,
                retrieved=wanted,
                passages=_verdicts(hits, replies, critiques, best),
                answer=reply.answer,
                source=story.answer_source,
            )
        ]

    async def _answered(self, session: Session, asked: Question, hit: Hit) -> Reply | None:
        """The answer from one passage."""
        try:
            return await from_passages(session, self.read, asked, [hit])
        except CallError as error:
            message = f"{error.message} (passage {hit.passage.id})"
            session.note("answer", error.cause, message, "left the passage out")
            return None


def _verdicts(
    hits: Sequence[Hit], replies: Sequence[Reply | None], critiques: Mapping[int, Critique], best: int | None
) -> list[PassageVerdict]:
    """The passages with what became of their answers."""
    verdicts = []
    for i, (verdict, reply) in enumerate(zip(unread(hits), replies, strict=True)):
        if reply is None:
            verdicts.append(verdict)
            continue
        one = critiques[i]
        why = (
            f"{reply.answer!r}: relevance {one.relevance:g}, support {one.support:g}, "
            f"usefulness {one.usefulness:g}, score {one.score:g}"
        )
        judged = "helpful" if one.relevance else "not helpful"
        verdicts.append(verdict.model_copy(update={"verdict": judged, "kept": i == best, "why": why}))
    return verdicts
