"""Retrieval-augmented generation for every question, whatever the language model knows (Lewis et al., 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import checked
from keqa.programs.baselines.base import SearchingBaseline
from keqa.programs.baselines.reading import answer_from
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import RecordBuilder
from keqa.programs.runtime.session import Session
from keqa.signatures import AnswerWithKnowledge, ReasonWithKnowledge


@checked
@dataclass(kw_only=True, eq=False, repr=False)
class AlwaysRetrieve(SearchingBaseline):
    """Searches with the question and answers from all that was found, at once or after a chain of thought.

    Attributes:
        reason: Whether to reason step by step first.
    """

    method: ClassVar[str] = "always retrieve"
    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}

    reason: bool = False

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.answer = Predictor(ReasonWithKnowledge if self.reason else AnswerWithKnowledge)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Search once and answer; see `Program.solve`."""
        hits = await self.search(session, asked.question, 0)
        await answer_from(session, self.answer, asked, hits, story)
