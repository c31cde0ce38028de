"""Self-RAG's critique of answers by its reflection tokens (Asai et al., 2024, sections 3.1 and 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import dspy

from keqa.programs.predictor_state import Predictor
from keqa.programs.runtime.attempts import ask
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session
from keqa.programs.stages.stage import Stage
from keqa.signatures import JudgeRelevance, JudgeSupport, RateUsefulness

__all__ = ["Critique", "Reflection"]

_SUPPORT = {"fully": 1.0, "partially": 0.5, "no": 0.0}
"""What the probability of each support token counts (appendix A.3)."""


@dataclass(frozen=True)
class Critique:
    """What the LM said of an answer and its passage, as the numbers that section 3.3 adds up.

    Attributes:
        relevance: ISREL: 1 or 0.
        support: ISSUP: 1, 0.5 or 0.
        usefulness: ISUSE: from -1 to 1.
        score: Their weighted sum, S(Critique).
    """

    relevance: float
    support: float
    usefulness: float
    score: float


class Reflection(Stage):
    """Asks for the tokens ISREL, ISSUP and ISUSE, each a prompt of its own, all side by side."""

    roles: ClassVar[Mapping[str, str]] = dict.fromkeys(("relevance", "support", "usefulness"), "task")

    def __init__(self, weights: tuple[float, float, float], bound: CallLimiter | None = None) -> None:
        """Set up.

        Args:
            weights: Of ISREL, ISSUP and ISUSE in the score.
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        self.relevance = Predictor(JudgeRelevance)
        self.support = Predictor(JudgeSupport)
        self.usefulness = Predictor(RateUsefulness)
        self.weights = weights

    async def run(self, session: Session, question: str, answered: Sequence[tuple[str, str]]) -> list[Critique]:
        """Criticise answers.

        Args:
            session: The calls of the question.
            question: Its text.
            answered: Passages, each with the answer that was written from it.

        Returns:
            A critique for each, in their order. A token that cannot be had counts 0, and a degradation says why.
        """
        count, answers = len(answered), list(dict.fromkeys(answer for _, answer in answered))
        pairs = [{"passage": passage, "question": question, "answer": answer} for passage, answer in answered]
        alone = [{"passage": passage, "question": question} for passage, _ in answered]
        rated = [{"question": question, "answer": answer} for answer in answers]
        scores = await session.gather(
            [
                *(self._scored(session, self.relevance, _relevance, inputs) for inputs in alone),
                *(self._scored(session, self.support, _support, inputs) for inputs in pairs),
                *(self._scored(session, self.usefulness, _usefulness, inputs) for inputs in rated),
            ]
        )
        useful = dict(zip(answers, scores[2 * count :], strict=True))
        critiques = []
        for i, (_, answer) in enumerate(answered):
            parts = (scores[i], scores[count + i], useful[answer])
            critiques.append(Critique(*parts, sum(w * part for w, part in zip(self.weights, parts, strict=True))))
        return critiques

    @staticmethod
    async def _scored(
        session: Session, predictor: dspy.Predict, score: Callable[[dspy.Prediction], float], inputs: Mapping[str, Any]
    ) -> float:
        try:
            return score(await ask(session, predictor, "task", "criticise", **inputs))
        except CallError as error:
            session.note("criticise", error.cause, error.message, "counted 0")
            return 0.0


def _relevance(said: dspy.Prediction) -> float:
    return float(bool(said.relevant))


def _support(said: dspy.Prediction) -> float:
    return _SUPPORT[said.support]


def _usefulness(said: dspy.Prediction) -> float:
    """Weights -1, -0.5, 0, 0.5 and 1 for the ratings 1 to 5 (appendix A.3)."""
    return (int(said.usefulness) - 3) / 2
