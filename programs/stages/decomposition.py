"""Quiz generation: from a question to the quizzes that settle it (KEQA, section 3.3, GenQ)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import dspy

from keqa.data.quiz_references import Quiz, parse
from keqa.metrics.answers import normalize
from keqa.programs.predictor_state import Predictor
from keqa.programs.runtime.attempts import ask, attempted
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.runtime.copied import Copies
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.programs.stages.stage import Stage
from keqa.signatures import DecomposeQuestion


def is_the_question(quiz: str, question: str) -> bool:
    """Whether a quiz is the question itself, as far as normalisation shows."""
    return normalize(quiz) == normalize(question)


class Decomposition(Stage):
    """Breaks a question into quizzes; where that fails, the question is its own quiz."""

    roles: ClassVar[Mapping[str, str]] = {"decompose": "task"}
    follows = ("max_quizzes",)

    def __init__(self, max_quizzes: int = 8, bound: CallLimiter | None = None) -> None:
        """Set up.

        Args:
            max_quizzes: Further quizzes are left out.
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        self.decompose = Predictor(DecomposeQuestion)
        self.max_quizzes = max_quizzes

    async def run(self, session: Session, question: str, *, own: bool = False) -> list[Quiz]:
        """Decompose a question.

        Args:
            session: The calls of the question.
            question: Its text.
            own: Whether quizzes that were copied from a demonstration are refused.

        Returns:
            At least one quiz. One that is the question has no references: a "#1" in it is the user's own.
        """
        whole = [Quiz(1, question)]
        try:
            prediction = await self._decomposed(session, question, own)
        except CallError as error:
            session.note("decompose", error.cause, error.message, "took the question for the single quiz")
            return whole
        quizzes = parse([str(quiz) for quiz in prediction.quizzes or []])
        if not quizzes:
            session.note(
                "decompose", "EmptyDecomposition", "no quiz was written", "took the question for the single quiz"
            )
            return whole
        if len(quizzes) > self.max_quizzes:
            message = f"{len(quizzes)} quizzes, more than {self.max_quizzes}"
            session.note("decompose", "TooManyQuizzes", message, f"kept the first {self.max_quizzes}")
            quizzes = quizzes[: self.max_quizzes]
        return whole if len(quizzes) == 1 and is_the_question(quizzes[0].text, question) else quizzes

    async def _decomposed(self, session: Session, question: str, own: bool) -> dspy.Prediction:
        if not own:
            return await ask(session, self.decompose, "task", "decompose", question=question)
        copies = Copies(self.decompose, [question])

        def usable(prediction: dspy.Prediction) -> None:
            for quiz in prediction.quizzes or []:
                copies.refuse(str(quiz), names=True)

        async def call(attempt: int) -> dspy.Prediction:
            demos = copies.demos(attempt)
            return await session.predict(
                self.decompose, "task", attempt=attempt, usable=usable, demos=demos, question=question
            )

        return await attempted(session, call, "decompose")
