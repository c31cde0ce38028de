"""The explanation and final answer from the answered quizzes (KEQA, Algorithm 2, line 20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import dspy

from keqa.data.question import AnswerType
from keqa.programs.runtime.retry import ask_for_answer
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.stage import Stage
from keqa.signatures import Summarize


class Summarizing(Stage):
    """Concludes from quizzes and their answers."""

    roles: ClassVar[Mapping[str, str]] = {"summarize": "task"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"summarize": Summarize}

    summarize: dspy.Predict

    async def run(
        self,
        session: Session,
        question: str,
        answered: Sequence[tuple[str, str]],
        answer_type: AnswerType = "short",
        choices: Sequence[str] = (),
    ) -> tuple[str, str]:
        """Summarize.

        Args:
            session: The calls of the question.
            question: Its text.
            answered: Resolved quizzes with their answers.
            answer_type: What kind of answer the question wants.
            choices: The options of a choice.

        Returns:
            Explanation and answer.

        Raises:
            CallError: There is no answer.
        """
        prediction = await ask_for_answer(
            session,
            self.summarize,
            "task",
            stage="summarize",
            numbered=True,
            question=question,
            answered_quizzes=[f"{quiz} {answer}" for quiz, answer in answered],
            answer_type=answer_type,
            choices=list(choices),
        )
        return text_of(prediction.get("explanation")), text_of(prediction.answer)
