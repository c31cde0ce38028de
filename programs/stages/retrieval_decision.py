"""Asking the language model itself whether it needs passages (KBM's baseline Prompt; Self-RAG's token Retrieve)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import dspy

from keqa.programs.runtime.attempts import ask
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.programs.stages.stage import Stage
from keqa.signatures import DecideRetrieval

__all__ = ["RetrievalDecision", "wants_retrieval"]


async def wants_retrieval(session: Session, decide: dspy.Predict, question: str, number: int | None = None) -> bool:
    """Ask once, at temperature 0 or whatever the LM is set to; without a usable reply passages are wanted.

    Args:
        session: The calls of the question.
        decide: Predicts `DecideRetrieval`.
        question: Or a quiz.
        number: The quiz's number, for degradations.
    """
    try:
        prediction = await ask(session, decide, "task", "decide_retrieval", number, question=question)
    except CallError as error:
        session.note("decide_retrieval", error.cause, error.message, "retrieved", number)
        return True
    return bool(prediction.retrieve)


class RetrievalDecision(Stage):
    """Asks whether a quiz calls for retrieval, before anything is drawn."""

    roles: ClassVar[Mapping[str, str]] = {"decide": "task"}

    def __init__(self, bound: CallLimiter | None = None) -> None:
        """Set up.

        Args:
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        self.decide = dspy.Predict(DecideRetrieval)

    async def run(self, session: Session, quiz: str, *, number: int | None = None) -> bool:
        """Ask.

        Args:
            session: The calls of the question.
            quiz: Resolved text.
            number: The quiz's number, for degradations.

        Returns:
            Whether passages are wanted.
        """
        return await wants_retrieval(session, self.decide, quiz, number)
