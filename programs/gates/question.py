"""What gates ask the language model about a quiz, in a call beside the samples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import dspy

from keqa.data.question import AnswerType
from keqa.programs.calls.ask import ask
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.replies import text_of
from keqa.programs.calls.session import note
from keqa.programs.draws import Draws
from keqa.programs.stages.stage import Stage
from keqa.signatures import DecideRetrieval, StateConfidence


class GateQuestion(Stage):
    """A stage that a gate brings along: its class is what the gate `asks`, its reply what the gate reads in `Draws`.

    It is asked once a quiz. A failed call must not pass for knowing: `run` notes it and returns a reply that has the
    gate retrieve.

    Attributes:
        attribute: Under which name an examination holds it, so that ``examination.ATTRIBUTE.PREDICTOR`` names each of
            its predictors in saved programs.
        before_samples: Whether it is asked before any sample is drawn, and not about the leading answer, as soon as
            that is fixed and where there is one.
    """

    attribute: ClassVar[str]
    before_samples: ClassVar[bool] = True

    @staticmethod
    def inputs(draws: Draws) -> dict[str, Any]:
        """The arguments of `run` for a quiz, beside the quiz's number."""
        return {"quiz": draws.quiz}

    @classmethod
    def predictors_by_name(cls) -> dict[str, type[dspy.Signature]]:
        """The signatures by the names that its predictors have in a program."""
        return {f"examination.{cls.attribute}.{name}": signature for name, signature in cls.signatures.items()}


async def wants_retrieval(decide: dspy.Predict, question: str, number: int | None = None) -> bool:
    """Ask once, at temperature 0 or whatever the LM is set to; without a usable reply passages are wanted."""
    try:
        prediction = await ask(decide, "decide_retrieval", number, question=question)
    except CallError as error:
        note("decide_retrieval", error.cause, error.message, "retrieved", number)
        return True
    return bool(prediction.retrieve)


class RetrievalDecision(GateQuestion):
    """Asks whether a quiz calls for retrieval, before anything is drawn."""

    attribute = "decision"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"decide": DecideRetrieval}
    roles: ClassVar[Mapping[str, str]] = {"decide": "task"}

    decide: dspy.Predict

    async def run(self, quiz: str, *, number: int | None = None) -> bool:
        """Whether passages are wanted."""
        return await wants_retrieval(self.decide, quiz, number)


_NUMBER = re.compile(r"(?<![\w.])(-?(?:\d+(?:\.\d+)?|\.\d+))\s*(%|/\s*100?\b)?")


def read_confidence(text: str) -> float | None:
    """The confidence that a text states, from 0 to 1; None where there is no number, or one out of bounds.

    The first number counts. One with a decimal point and at most 1 is a probability, any other a percentage, for that
    is what is asked for: ``85``, ``85 %``, ``0.85`` and ``85 / 100`` are the same, ``8 / 10`` is 0.8, ``1`` is 0.01.
    """
    found = _NUMBER.search(text)
    if found is None:
        return None
    number, unit = float(found[1]), found[2] or ""
    probability = "." in found[1] and abs(number) <= 1 and not unit
    confidence = number if probability else number / (10 if unit.endswith("10") else 100)
    return confidence if 0 <= confidence <= 1 else None


class StatedConfidence(GateQuestion):
    """Asks for the confidence in an answer; one that cannot be had is 0, so that a failure never passes for knowing."""

    attribute = "confidence"
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]] = {"state": StateConfidence}
    roles: ClassVar[Mapping[str, str]] = {"state": "task"}
    before_samples = False

    state: dspy.Predict

    @staticmethod
    def inputs(draws: Draws) -> dict[str, Any]:
        """The quiz and its leading answer."""
        asked = {"answer_type": draws.answer_type, "choices": draws.choices}
        return {"quiz": draws.quiz, "answer": draws.leading, **asked}

    async def run(
        self,
        quiz: str,
        answer: str,
        answer_type: AnswerType = "short",
        choices: Sequence[str] = (),
        *,
        number: int | None = None,
    ) -> float:
        """The confidence, from 0 to 1, asked for at temperature 0 or whatever the LM is set to."""
        asked: dict[str, Any] = {"quiz": quiz, "answer_type": answer_type, "choices": list(choices)}
        try:
            said = await ask(self.state, "state_confidence", number, usable=_stated, **asked, proposed_answer=answer)
        except CallError as error:
            note("state_confidence", error.cause, error.message, "taken for no confidence", number)
            return 0.0
        return _stated(said)


def _stated(prediction: dspy.Prediction) -> float:
    """The confidence that a reply states."""
    text = text_of(prediction.confidence)
    confidence = read_confidence(text)
    if confidence is None:
        raise CallError("UnreadableConfidenceError", f"{text!r} states no confidence", unusable=True)
    return confidence
