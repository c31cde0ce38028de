"""The language model alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import dspy

from keqa.data.question import Question
from keqa.programs.arguments import LMS, Characters, Workers, checked
from keqa.programs.baselines.reading import asked_inputs, conclude
from keqa.programs.predictor_state import Predictor
from keqa.programs.program import Program, RecordBuilder, UnansweredError
from keqa.programs.runtime.attempts import has_answer
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.retry import predict_with_retry
from keqa.programs.runtime.session import Session
from keqa.programs.stages.stage import RoleLMs
from keqa.signatures import AnswerQuestion, ReasonFromMemory

__all__ = ["ClosedBook"]


@checked
class ClosedBook(Program):
    """Answers from memory, at once or after a chain of thought, in one call."""

    method: ClassVar[str] = "closed book"
    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}

    def __init__(
        self,
        *,
        reason: bool = False,
        lms: Annotated[RoleLMs, LMS] | None = None,
        max_question_chars: Characters = 8000,
        workers: Workers = 16,
    ) -> None:
        """Set up.

        Args:
            reason: Whether to reason step by step first.
            lms: Of which the task role answers; ``dspy.settings.lm`` where None.
            max_question_chars: Longer questions are refused.
            workers: How many calls may be in flight, over all questions.
        """
        super().__init__(lms, workers, max_question_chars)
        self.answer = Predictor(ReasonFromMemory if reason else AnswerQuestion)
        self.reason = reason
        self.bind_lms(lms)

    async def solve(self, session: Session, asked: Question, story: RecordBuilder) -> None:
        """Answer in one call; see `Program.solve`."""

        async def ask(attempt: int) -> dspy.Prediction:
            inputs = asked_inputs(asked)
            return await session.predict(self.answer, "task", attempt=attempt, usable=has_answer, **inputs)

        try:
            prediction = await predict_with_retry(session, ask)
        except CallError as error:
            raise UnansweredError.at("answer", error) from error
        conclude(story, prediction, "closed_book")
