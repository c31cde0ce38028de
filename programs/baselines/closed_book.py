"""The language model alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import checked
from keqa.programs.baselines.base import Baseline
from keqa.programs.baselines.reading import conclude, from_memory, unanswered
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import RecordBuilder
from keqa.programs.runtime.session import Session
from keqa.signatures import AnswerQuestion, ReasonFromMemory


@checked
@dataclass(kw_only=True, eq=False, repr=False)
class ClosedBook(Baseline):
    """Answers from memory, at once or after a chain of thought, in one call.

    Attributes:
        reason: Whether to reason step by step first.
    """

    method: ClassVar[str] = "closed book"
    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}

    reason: bool = False

    def set_up(self) -> None:
        """See `Baseline.set_up`."""
        self.answer = Predictor(ReasonFromMemory if self.reason else AnswerQuestion)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Answer in one call; see `Program.solve`."""
        with unanswered("answer"):
            reply = await from_memory(session, self.answer, asked)
        conclude(story, reply, "closed_book")
