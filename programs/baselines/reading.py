"""What methods that search more than once have in common: passages that add up, sentences, and an answer in the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dspy

from keqa.data.question import Question
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.records import AnswerSource, PassageVerdict, QuizRecord
from keqa.programs.runtime.attempts import attempted, has_answer, searched
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.retry import predict_with_retry
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.answering import fewer_passages
from keqa.programs.stages.picking import unjudged
from keqa.programs.stages.selection import sentences
from keqa.retrievers.base import Hit, Retriever

__all__ = [
    "Collected",
    "answer_from",
    "asked_inputs",
    "conclude",
    "concluded",
    "first_sentence",
    "predict_from",
    "reason_from",
    "search_or_fail",
    "search_record",
    "verdicts",
]

_ABBREVIATED = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|Gen|Col|Capt|Lt|Sgt|Rev|vs|No)\.$")
_ABBREVIATION_CHARS = 8
_CONCLUSION = re.compile(r"\banswer is\b:?\s*(?P<answer>.*)", re.IGNORECASE | re.DOTALL)


class Collected:
    """The passages found so far, each once, in the order in which they were found.

    Attributes:
        hits: The passages.
    """

    def __init__(self, most: int | None = None) -> None:
        """Start empty.

        Args:
            most: How many to keep; later ones are left out. Any number where None.
        """
        self.hits: list[Hit] = []
        self._most = most
        self._known: set[str] = set()

    def add(self, hits: Iterable[Hit]) -> None:
        """Add those that are new."""
        for hit in hits:
            full = self._most is not None and len(self.hits) >= self._most
            if not full and hit.passage.id not in self._known:
                self._known.add(hit.passage.id)
                self.hits.append(hit)


def asked_inputs(asked: Question) -> dict[str, Any]:
    """The question as prompts take it."""
    return {"question": asked.question, "answer_type": asked.answer_type, "choices": list(asked.choices)}


async def search_or_fail(session: Session, retriever: Retriever, query: str, k: int, number: int) -> list[Hit]:
    """Search; a search that fails has not found nothing, and nothing stands in for its passages.

    Args:
        session: The calls of the question.
        retriever: Where to search.
        query: What for.
        k: How many passages to find.
        number: The number of the search, for degradations.

    Raises:
        UnansweredError: It failed.
    """
    try:
        return await searched(session, retriever, query, k, number)
    except CallError as error:
        raise UnansweredError.at("retrieve", error) from error


async def predict_from(
    session: Session,
    predictor: dspy.Predict,
    hits: Sequence[Hit],
    *,
    config: dict[str, Any] | None = None,
    attempt: int = 0,
    usable: Callable[[dspy.Prediction], object] | None = None,
    **inputs: Any,
) -> tuple[dspy.Prediction, int]:
    """Ask once with passages, as many of the first as fit the context window.

    Args:
        session: The calls of the question.
        predictor: Which to call; it has an input `passages`.
        hits: The passages.
        config: Settings of this call.
        attempt: Which attempt at this call it is; see `Session.predict`.
        usable: See there.
        **inputs: The other inputs.

    Returns:
        The prediction, and how many passages it was made from.

    Raises:
        CallError: There is none.
    """
    count = len(hits)
    while True:
        passages = [hit.passage.rendered for hit in hits[:count]]
        try:
            said = await session.predict(
                predictor, "task", config=config, attempt=attempt, usable=usable, passages=passages, **inputs
            )
        except CallError as error:
            count = fewer_passages(session, count, error, None)
        else:
            return said, count


async def reason_from(
    session: Session,
    predictor: dspy.Predict,
    hits: Sequence[Hit],
    number: int | None = None,
    *,
    config: dict[str, Any] | None = None,
    **inputs: Any,
) -> dspy.Prediction:
    """Ask for a step of reasoning with passages, and again where it fails; see `keqa.programs.runtime.attempts`.

    Args:
        session: The calls of the question.
        predictor: Which to call; it has an input `passages`.
        hits: The passages.
        number: The number of the step, for degradations.
        config: Settings of this call.
        **inputs: The other inputs.

    Raises:
        CallError: No attempt succeeded.
    """
    count = len(hits)

    async def call(attempt: int) -> dspy.Prediction:
        nonlocal count
        said, count = await predict_from(session, predictor, hits[:count], config=config, attempt=attempt, **inputs)
        return said

    return await attempted(session, call, "reason", number)


async def answer_from(
    session: Session,
    predictor: dspy.Predict,
    asked: Question,
    hits: Sequence[Hit],
    story: RecordBuilder,
    **further: Any,
) -> None:
    """Write the answer to the whole question, and the passages that it was drawn from, into the story.

    Args:
        session: The calls of the question.
        predictor: Reads passages and gives `answer`, maybe with `reasoning`.
        asked: The question.
        hits: The passages.
        story: Is written to.
        **further: More inputs of the predictor.

    Raises:
        UnansweredError: There is no answer.
    """
    count = len(hits)

    async def ask(attempt: int) -> dspy.Prediction:
        nonlocal count
        inputs = asked_inputs(asked) | further
        said, count = await predict_from(session, predictor, hits[:count], attempt=attempt, usable=has_answer, **inputs)
        return said

    try:
        prediction = await predict_with_retry(session, ask)
    except CallError as error:
        raise UnansweredError.at("answer", error) from error
    story.passages = verdicts(hits, count)
    conclude(story, prediction, "passages")


def conclude(story: RecordBuilder, prediction: dspy.Prediction, source: AnswerSource) -> None:
    """Write a prediction's answer into the story, with its reasoning where there is some.

    Raises:
        UnansweredError: The answer is empty.
    """
    story.answer = text_of(prediction.answer)
    if not story.answer:
        raise UnansweredError("answer", "EmptyAnswerError", "the answer was empty")
    story.explanation = text_of(prediction.get("reasoning"))
    story.answer_source = source


def verdicts(hits: Sequence[Hit], count: int | None = None) -> list[PassageVerdict]:
    """Every passage as kept, but those after the first ``count``, which did not fit."""
    return [
        verdict
        if count is None or position < count
        else verdict.model_copy(update={"kept": False, "why": "did not fit"})
        for position, verdict in enumerate(unjudged(hits, "every passage found is kept"))
    ]


def search_record(number: int, query: str, hits: Sequence[Hit], answer: str | None) -> QuizRecord:
    """A search as a quiz, of which the answer is what was concluded from the passages; without one it failed."""
    return QuizRecord(
        index=number,
        text=query,
        resolved=query,
        retrieved=True,
        passages=verdicts(hits),
        answer=answer,
        source="failed" if answer is None else "passages" if hits else "closed_book",
    )


def first_sentence(text: str) -> str:
    """The first sentence of a reply that may hold more of them; a title or an initial does not end it."""
    first = []
    for part in sentences(text):
        first.append(part)
        # What is abbreviated is a sentence's last word.
        if not _ABBREVIATED.search(part, max(0, len(part) - _ABBREVIATION_CHARS)):
            break
    return " ".join(first)


def concluded(thought: str) -> str | None:
    """What a thought such as ``So the answer is Oslo.`` says that the answer is; None where it is another thought."""
    match = _CONCLUSION.search(thought)
    return None if match is None else match["answer"].strip().removesuffix(".").strip()
