"""The language model alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from keqa.data.question import Question
from keqa.programs.arguments import checked
from keqa.programs.baselines.base import OneCallBaseline
from keqa.programs.baselines.reading import conclude, from_memory, unanswered
from keqa.programs.program import RecordBuilder
from keqa.programs.runtime.session import Session
from keqa.signatures import AnswerQuestion, ReasonFromMemory


@checked
@dataclass(kw_only=True, eq=False, repr=False)
class ClosedBook(OneCallBaseline):
    """Answers from memory, at once or after a chain of thought, in one call.

    Attributes:
        reason: Whether to reason step by step first.
    """

    method: ClassVar[str] = "closed book"
    asks = (AnswerQuestion, ReasonFromMemory)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Answer in one call; see `Program.solve`."""
        with unanswered("answer"):
            reply = await from_memory(session, self.answer, asked)
        conclude(story, reply, "closed_book")
