"""Asking the language model itself whether it needs passages (KBM's baseline Prompt; Self-RAG's token Retrieve)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import dspy

from keqa.programs.runtime.attempts import ask
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.programs.stages.gate_question import GateQuestion
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


class RetrievalDecision(GateQuestion):
    """Asks whether a quiz calls for retrieval, before anything is drawn."""

    attribute = "decision"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"decide": DecideRetrieval}
    roles: ClassVar[Mapping[str, str]] = {"decide": "task"}

    decide: dspy.Predict

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
