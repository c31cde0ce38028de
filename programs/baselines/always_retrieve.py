"""Retrieval-augmented generation for every question, whatever the language model knows (Lewis et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import checked
from keqa.programs.baselines.base import OneCallBaseline, SearchingBaseline
from keqa.programs.baselines.reading import answer_from
from keqa.programs.program import RecordBuilder
from keqa.programs.runtime.session import Session
from keqa.signatures import AnswerWithKnowledge, ReasonWithKnowledge


@checked
@dataclass(kw_only=True, eq=False, repr=False)
class AlwaysRetrieve(OneCallBaseline, SearchingBaseline):
    """Searches with the question and answers from all that was found, at once or after a chain of thought.

    Attributes:
        reason: Whether to reason step by step first.
    """

    method: ClassVar[str] = "always retrieve"
    asks = (AnswerWithKnowledge, ReasonWithKnowledge)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Search once and answer; see `Program.solve`."""
        hits = await self.search(session, asked.question, 0)
        await answer_from(session, self.answer, asked, hits, story)
