"""What a gate asks the language model about a quiz, in a call beside the samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import dspy

from keqa.programs.predictor_state import Predictor
from keqa.programs.runtime.concurrency import CallLimiter
from keqa.programs.stages.stage import Stage

if TYPE_CHECKING:
    from keqa.programs.gates.votes import Votes

__all__ = ["GateQuestion"]


class GateQuestion(Stage):
    """A stage that a gate brings along: its class is what the gate `asks`, its reply what the gate reads in `Votes`.

    It is asked once a quiz. A failed call must not pass for knowing: `run` notes it and returns a reply that has the
    gate retrieve.

    Attributes:
        attribute: Under which name an examination holds it, so that ``examination.ATTRIBUTE.PREDICTOR`` names each of
            its predictors in saved programs.
        signatures: The signature of each predictor, by attribute name; `roles` has their language models.
        before_samples: Whether it is asked before any sample is drawn, and not about the leading answer, as soon as
            that is fixed and where there is one.
    """

    attribute: ClassVar[str]
    signatures: ClassVar[Mapping[str, type[dspy.Signature]]]
    before_samples: ClassVar[bool] = True

    def __init__(self, bound: CallLimiter | None = None) -> None:
        """Set up.

        Args:
            bound: How many calls may be in flight.
        """
        super().__init__(bound)
        for name, signature in self.signatures.items():
            setattr(self, name, Predictor(signature))

    @staticmethod
    def inputs(votes: Votes) -> dict[str, Any]:
        """The arguments of `run` for a quiz, beside the session and the quiz's number."""
        return {"quiz": votes.quiz}

    @classmethod
    def predictors_by_name(cls) -> dict[str, type[dspy.Signature]]:
        """The signatures by the names that its predictors have in a program."""
        return {f"examination.{cls.attribute}.{name}": signature for name, signature in cls.signatures.items()}
