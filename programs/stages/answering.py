"""Answering from picked knowledge (KEQA, section 3.4, RAG; KS-LLM, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import dspy

from keqa.data.question import AnswerType
from keqa.programs.predictor_state import Predictor
from keqa.programs.runtime.attempts import has_answer
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.retry import predict_with_retry
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.stage import Stage
from keqa.signatures import AnswerWithKnowledge

__all__ = ["Answering", "fewer_passages"]


def fewer_passages(session: Session, count: int, error: CallError, number: int | None) -> int:
    """Halve the passages after an overflow, and record it; the window is the language model's, and no call failed.

    Raises:
        CallError: It was no overflow, or nothing is left to leave out.
    """
    if not error.overflow or count < 2:
        raise error
    fewer = count // 2
    action = f"tried the best {fewer} of {count} passages"
    session.note("answer", error.cause, error.message, action, number, harmless=True)
    return fewer


class Answering(Stage):
    """Answers a quiz or question from passages; where they exceed the context window, from the better half of them."""

    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}

    def __init__(self, bound: CallLimiter | None = None) -> None:
        """Set up.

        Args:
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        self.answer = Predictor(AnswerWithKnowledge)

    async def run(
        self,
        session: Session,
        question: str,
        passages: Sequence[str],
        answer_type: AnswerType = "short",
        choices: Sequence[str] = (),
        *,
        evidence: Sequence[str] = (),
        triples: Sequence[str] = (),
        number: int | None = None,
    ) -> str:
        """Answer.

        Args:
            session: The calls of the question.
            question: Quiz or question, resolved.
            passages: As the language model reads them, best first.
            answer_type: What kind of answer it wants.
            choices: The options of a choice.
            evidence: Selected sentences.
            triples: Constructed triples.
            number: The quiz's number, for degradations.

        Raises:
            CallError: There is no answer.
        """
        count = len(passages)

        async def ask(attempt: int) -> dspy.Prediction:
            nonlocal count
            while True:
                try:
                    return await session.predict(
                        self.answer,
                        "task",
                        attempt=attempt,
                        usable=has_answer,
                        passages=list(passages[:count]),
                        evidence=list(evidence),
                        triples=list(triples),
                        question=question,
                        answer_type=answer_type,
                        choices=list(choices),
                    )
                except CallError as error:
                    count = fewer_passages(session, count, error, number)

        return text_of((await predict_with_retry(session, ask, number)).answer)
