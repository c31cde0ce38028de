"""Retrieval-augmented generation for every question, whatever the language model knows (Lewis et al., 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import LMS, RETRIEVER, Characters, TopK, Workers, checked
from keqa.programs.baselines.reading import answer_from, search_or_fail
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import Program, RecordBuilder
from keqa.programs.runtime.concurrency import NoCopy
from keqa.programs.runtime.session import Session
from keqa.programs.stages.stage import RoleLMs
from keqa.retrievers.base import Retriever
from keqa.signatures import AnswerWithKnowledge, ReasonWithKnowledge

__all__ = ["AlwaysRetrieve"]


@checked
class AlwaysRetrieve(Program):
    """Searches with the question and answers from all that was found, at once or after a chain of thought."""

    method: ClassVar[str] = "always retrieve"
    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}

    def __init__(
        self,
        retriever: Annotated[Retriever, RETRIEVER],
        *,
        top_k: TopK = 10,
        reason: bool = False,
        lms: Annotated[RoleLMs, LMS] | None = None,
        max_question_chars: Characters = 8000,
        workers: Workers = 16,
    ) -> None:
        """Set up.

        Args:
            retriever: Where the passages come from.
            top_k: Passages to search for.
            reason: Whether to reason step by step first.
            lms: Of which the task role answers; ``dspy.settings.lm`` where None.
            max_question_chars: Longer questions are refused.
            workers: How many calls may be in flight, over all questions.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(lms, workers, max_question_chars)
        self.answer = Predictor(ReasonWithKnowledge if reason else AnswerWithKnowledge)
        self.reason, self.top_k = reason, top_k
        self._retriever = NoCopy(retriever)
        self.bind_lms(lms)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Search once and answer; see `Program.solve`."""
        hits = await search_or_fail(session, self._retriever.value, asked.question, self.top_k, 0)
        further: dict[str, Any] = {} if self.reason else {"evidence": [], "triples": []}
        await answer_from(session, self.answer, asked, hits, story, **further)
        story.answer_source = "passages" if hits else "closed_book"
