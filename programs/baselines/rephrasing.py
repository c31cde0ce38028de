"""Rowen's perturbation: the same question in other words (Ding et al., 2024, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import dspy

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.programs.predictor_state import Predictor
from keqa.programs.runtime.attempts import DRAW, attempted
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.runtime.errors import CallError
from keqa.programs.runtime.session import Session, runs_in_process, text_of
from keqa.programs.stages.examination import draw_identity
from keqa.programs.stages.stage import Stage
from keqa.signatures import RephraseQuestion

__all__ = ["Rephrasing"]


class Rephrasing(Stage):
    """Draws other wordings of a question, all side by side."""

    roles: ClassVar[Mapping[str, str]] = {"rephrase": "task"}

    def __init__(self, tries: int, temperature: float = 1.0, seed: int = 0, bound: CallLimiter | None = None) -> None:
        """Set up.

        Args:
            tries: How often to rephrase.
            temperature: Of the draws.
            seed: Another seed draws other wordings.
            bound: How many calls may be in flight.

        Raises:
            ConfigurationError: Settings that cannot work.
        """
        super().__init__(bound)
        if tries < 1 or temperature <= 0:
            raise ConfigurationError("a question must be rephrased at least once, at a temperature above 0")
        self.rephrase = Predictor(RephraseQuestion)
        self.tries, self.temperature, self.seed = tries, temperature, seed

    async def run(self, session: Session, asked: Question) -> list[str]:
        """Rephrase a question.

        Args:
            session: The calls of the question.
            asked: The question.

        Returns:
            The different wordings other than its own; a degradation reports each sample that failed.
        """
        drawn = await session.gather([self._draw(session, asked, position) for position in range(self.tries)])
        return list(dict.fromkeys(text for text in drawn if text and text != asked.question))

    async def _draw(self, session: Session, asked: Question, position: int) -> str | None:
        identity = draw_identity(self.seed, asked.question, asked.answer_type, asked.choices, f"rephrase {position}")
        config: dict[str, Any] = {"temperature": self.temperature, "rollout_id": identity}
        if runs_in_process(self.rephrase.lm or dspy.settings.lm):
            config["seed"] = identity & 0x7FFFFFFF
        try:
            said = await attempted(
                session,
                lambda attempt: session.predict(self.rephrase, "task", config=config, question=asked.question),
                "rephrase",
                draws=DRAW,
            )
        except CallError as error:
            session.note("rephrase", error.cause, error.message, "left the rephrasing out")
            return None
        return text_of(said.rephrased)
