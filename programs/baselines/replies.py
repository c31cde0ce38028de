"""What methods that ask what the language model knows have in common: an answer in hand before it is concluded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dspy

from keqa.data.question import Question
from keqa.programs.baselines.reading import asked_inputs, predict_from
from keqa.programs.records import PassageVerdict, QuizRecord
from keqa.programs.runtime.attempts import has_answer
from keqa.programs.runtime.retry import predict_with_retry
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.picking import unjudged
from keqa.retrievers.base import Hit

__all__ = ["Reply", "examined", "from_memory", "from_passages", "unread"]


@dataclass(frozen=True)
class Reply:
    """An answer and how it came about.

    Attributes:
        answer: Never empty.
        reasoning: Empty where none was asked for.
        read: How many of the passages were read; the others did not fit the context window.
    """

    answer: str
    reasoning: str = ""
    read: int = 0


async def from_memory(
    session: Session, predictor: dspy.Predict, asked: Question, *, question: str | None = None, role: str = "task"
) -> Reply:
    """Answer closed-book, in one call, and again where that fails; see `keqa.programs.runtime.attempts`.

    Args:
        session: The calls of the question.
        predictor: Asks for an answer, or for reasoning and an answer.
        asked: What kind of answer is wanted.
        question: In the place of the question as asked.
        role: To whom the call is charged.

    Raises:
        CallError: There is no answer.
    """
    inputs = asked_inputs(asked if question is None else replace(asked, question=question))

    async def ask(attempt: int) -> dspy.Prediction:
        return await session.predict(predictor, role, attempt=attempt, usable=has_answer, **inputs)

    return _reply(await predict_with_retry(session, ask), 0)


async def from_passages(session: Session, predictor: dspy.Predict, asked: Question, hits: Sequence[Hit]) -> Reply:
    """Answer from as many of the best passages as fit the context window, and again where that fails.

    Args:
        session: The calls of the question.
        predictor: Asks for an answer, or for reasoning and an answer.
        asked: The question.
        hits: The passages, best first.

    Raises:
        CallError: There is no answer.
    """
    further: dict[str, Any] = {name: [] for name in ("evidence", "triples") if name in predictor.signature.input_fields}
    count = len(hits)

    async def ask(attempt: int) -> dspy.Prediction:
        nonlocal count
        said, count = await predict_from(
            session, predictor, hits[:count], attempt=attempt, usable=has_answer, **asked_inputs(asked), **further
        )
        return said

    prediction = await predict_with_retry(session, ask)
    return _reply(prediction, count)


def _reply(prediction: dspy.Prediction, read: int) -> Reply:
    return Reply(text_of(prediction.answer), text_of(prediction.get("reasoning")), read)


def examined(asked: Question, **fields: Any) -> QuizRecord:
    """The record of a question of which a method decides as a whole whether it is known: it is its own one quiz."""
    return QuizRecord(index=1, text=asked.question, resolved=asked.question, **fields)


def unread(hits: Sequence[Hit]) -> list[PassageVerdict]:
    """Passages that were found and that gave no answer."""
    return [verdict.model_copy(update={"kept": False}) for verdict in unjudged(hits, "gave no answer")]
