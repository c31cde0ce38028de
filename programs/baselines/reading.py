"""What the methods have in common: searches that add up, an answer from memory or passages, and how it is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import Any

import dspy

from keqa.data.question import Question
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.replies import text_of
from keqa.programs.program import RecordBuilder, UnansweredError
from keqa.programs.records import AnswerSource, PassageVerdict, QuizRecord
from keqa.programs.stages.picking import unjudged
from keqa.retrievers.base import Hit
from keqa.retrievers.splitting import sentences

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

    def add_in_turn(self, found: Iterable[Sequence[Hit]]) -> None:
        """Add what several searches found, the best of each first: what is cut off is the rest of each."""
        self.add(hit for hit in chain.from_iterable(zip_longest(*found)) if hit is not None)

    def add(self, hits: Iterable[Hit]) -> None:
        """Add those that are new."""
        for hit in hits:
            full = self._most is not None and len(self.hits) >= self._most
            if not full and hit.passage.id not in self._known:
                self._known.add(hit.passage.id)
                self.hits.append(hit)


@dataclass(frozen=True)
class Reply:
    """An answer and how it came about.

    Attributes:
        answer: Never empty where a call was refused without one.
        reasoning: Empty where none was asked for.
        read: How many of the passages were read; the others did not fit the context window.
    """

    answer: str
    reasoning: str = ""
    read: int = 0

    @classmethod
    def of(cls, prediction: dspy.Prediction, read: int = 0) -> Reply:
        """What a prediction says."""
        return cls(text_of(prediction.answer), text_of(prediction.get("reasoning")), read)


def asked_inputs(asked: Question, predictor: dspy.Predict | None = None) -> dict[str, Any]:
    """The question as prompts take it.

    Args:
        asked: The question.
        predictor: Which is given it; the kind of answer is left out where its prompt has no place for that.
    """
    kind = {"answer_type": asked.answer_type, "choices": list(asked.choices)}
    fields = kind if predictor is None else predictor.signature.input_fields
    return {"question": asked.question, **{name: value for name, value in kind.items() if name in fields}}


@contextmanager
def unanswered(stage: str) -> Iterator[None]:
    """Within it a call that fails leaves the question without an answer: nothing replaces it.

    Raises:
        UnansweredError: A call failed.
    """
    try:
        yield
    except CallError as error:
        raise UnansweredError.at(stage, error) from error


async def from_memory(predictor: dspy.Predict, asked: Question, *, question: str | None = None) -> Reply:
    """Answer closed-book, in one call, and again where that fails; see `keqa.programs.calls.ask`.

    Args:
        predictor: Asks for an answer, or for reasoning and an answer.
        asked: What kind of answer is wanted.
        question: In the place of the question as asked.

    Raises:
        CallError: There is no answer.
    """
    inputs = asked_inputs(asked if question is None else replace(asked, question=question), predictor)
    return Reply.of(await ask(predictor, "answer", for_answer=True, **inputs))


async def from_passages(predictor: dspy.Predict, asked: Question, hits: Sequence[Hit]) -> Reply:
    """Answer from as many of the best passages as fit the context window, and again where that fails.

    Args:
        predictor: Asks for an answer, or for reasoning and an answer.
        asked: The question.
        hits: The passages, best first.

    Raises:
        CallError: There is no answer.
    """
    inputs = asked_inputs(asked, predictor)
    inputs |= {name: [] for name in ("evidence", "triples") if name in predictor.signature.input_fields}
    passages = rendered(hits)
    return Reply.of(await ask(predictor, "answer", for_answer=True, fitting=passages, **inputs), len(passages))


async def answer_from(predictor: dspy.Predict, asked: Question, hits: Sequence[Hit], story: RecordBuilder) -> None:
    """Write the answer to the whole question, and the passages that it was drawn from, into its record.

    Args:
        predictor: Reads passages and gives `answer`, maybe with `reasoning`.
        asked: The question.
        hits: The passages.
        story: Is written to.

    Raises:
        UnansweredError: There is no answer.
    """
    with unanswered("answer"):
        reply = await from_passages(predictor, asked, hits)
    story.passages = verdicts(hits, reply.read)
    conclude(story, reply, "passages" if hits else "closed_book")


def conclude(story: RecordBuilder, reply: Reply, source: AnswerSource) -> None:
    """Write an answer into the record, with its reasoning where there is some.

    Raises:
        UnansweredError: The answer is empty.
    """
    if not reply.answer:
        raise UnansweredError("answer", "EmptyAnswerError", "the answer was empty")
    story.answer, story.explanation, story.answer_source = reply.answer, reply.reasoning, source


def verdicts(hits: Sequence[Hit], count: int | None = None) -> list[PassageVerdict]:
    """Every passage as kept, but those after the first ``count``, which did not fit."""
    return [
        verdict
        if count is None or position < count
        else verdict.model_copy(update={"kept": False, "why": "did not fit"})
        for position, verdict in enumerate(unjudged(hits, "every passage found is kept"))
    ]


def unread(hits: Sequence[Hit]) -> list[PassageVerdict]:
    """Passages that were found and that gave no answer."""
    return [verdict.model_copy(update={"kept": False}) for verdict in unjudged(hits, "gave no answer")]


def examined(asked: Question, **fields: Any) -> QuizRecord:
    """The record of a question of which a method decides as a whole whether it is known: it is its own one quiz."""
    return QuizRecord(index=1, text=asked.question, resolved=asked.question, **fields)


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
    """The first sentence of a reply that may hold more of them; it ends with its line, but not with an abbreviation."""
    first_line = text.strip().partition("\n")[0]
    return next(sentences(first_line), "").strip()


def concluded(thought: str) -> str | None:
    """What a thought such as ``So the answer is Oslo.`` says that the answer is; None where it is another thought."""
    match = _CONCLUSION.search(thought)
    return None if match is None else match["answer"].strip().removesuffix(".").strip()


def rendered(hits: Sequence[Hit]) -> list[str]:
    """Passages as the language model reads them."""
    return [hit.passage.rendered for hit in hits]
