"""Answering from picked knowledge (KEQA, section 3.4, RAG; KS-LLM, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import dspy

from keqa.data.question import AnswerType
from keqa.programs.runtime.answered import refusing_empty
from keqa.programs.runtime.attempts import ANSWER
from keqa.programs.runtime.copied import Copies
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.retry import predict_with_retry
from keqa.programs.runtime.session import Session, text_of
from keqa.programs.stages.stage import Stage
from keqa.signatures import AnswerWithKnowledge


class FromPassages:
    """Calls a predictor with passages; where they exceed the context window, with the better half of them.

    Attributes:
        count: How many passages the last call was made with; further attempts take no more.
    """

    def __init__(
        self,
        session: Session,
        predictor: dspy.Predict,
        passages: Sequence[str],
        number: int | None = None,
        copies: Copies | None = None,
        **arguments: Any,
    ) -> None:
        """Set up the call.

        Args:
            session: The calls of the question.
            predictor: Which to call; it has an input `passages`.
            passages: As the language model reads them, best first.
            number: The quiz's number, for degradations.
            copies: Refuses an answer that was copied from a demonstration.
            **arguments: As for `Session.predict`; an answer that says nothing is refused.
        """
        self._session, self._predictor, self._arguments = session, predictor, arguments
        self._passages, self._number, self._copies = passages, number, copies
        self.count = len(passages)

    async def __call__(self, attempt: int) -> dspy.Prediction:
        """Make an attempt, which gets its number; see `keqa.programs.runtime.attempts.attempted`.

        Raises:
            CallError: It failed, by an overflow only where no passage is left to leave out.
        """
        usable = None
        if "answer" in self._predictor.signature.output_fields:
            choices = self._arguments.get("choices", ())
            usable = self._refusing(refusing_empty(choices, numbered=bool(self._passages), last=attempt == ANSWER))
        demos = None if self._copies is None else self._copies.demos(attempt)
        while True:
            try:
                passages = list(self._passages[: self.count])
                return await self._session.predict(
                    self._predictor,
                    "task",
                    attempt=attempt,
                    usable=usable,
                    passages=passages,
                    demos=demos,
                    **self._arguments,
                )
            except CallError as error:
                if not error.overflow or self.count < 2:
                    raise
                # The window is the language model's, and no call failed.
                action = f"tried the best {self.count // 2} of {self.count} passages"
                self._session.note("answer", error.cause, error.message, action, self._number, harmless=True)
                self.count //= 2

    def _refusing(self, empty: Callable[[dspy.Prediction], None]) -> Callable[[dspy.Prediction], None]:
        """What refuses empty answers, and copied ones where these are looked for."""
        copies = self._copies
        if copies is None:
            return empty

        def check(prediction: dspy.Prediction) -> None:
            empty(prediction)
            copies.refuse(text_of(prediction.answer))

        return check


class Answering(Stage):
    """Answers a quiz or question from passages; where they exceed the context window, from the better half of them."""

    roles: ClassVar[Mapping[str, str]] = {"answer": "task"}
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"answer": AnswerWithKnowledge}

    answer: dspy.Predict

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
        predictor: dspy.Predict | None = None,
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
            predictor: Asks; the stage's own where None.

        Raises:
            CallError: There is no answer.
        """
        inputs = {"question": question, "answer_type": answer_type, "choices": list(choices)}
        knowledge = {"evidence": list(evidence), "triples": list(triples)}
        # The papers' prompts are asked as their papers do.
        copies = None if predictor is None else Copies(predictor, [question, *choices, *passages, *evidence, *triples])
        call = FromPassages(session, predictor or self.answer, passages, number, copies, **knowledge, **inputs)
        return text_of((await predict_with_retry(session, call, number, copies=copies)).answer)
