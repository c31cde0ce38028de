"""What a program withholds so that no more than a given share of its answers is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keqa.programs.abstention.confidence import Confidence
from keqa.programs.abstention.signals import abstained
from keqa.programs.records import QuestionRecord

WITHHELD = "I do not know"
"""What replaces an answer that is withheld."""


@dataclass(frozen=True)
class Abstention:
    """Withholds answers whose confidence does not reach a calibrated threshold.

    Attributes:
        confidence: How probably an answer is right.
        threshold: Answers of less confidence are withheld.
        risk: The share of the given answers that may be wrong.
        delta: The chance that the threshold does not hold the risk.
        calibrated_on: A digest of what the threshold was calibrated on.
    """

    confidence: Confidence
    threshold: float
    risk: float
    delta: float
    calibrated_on: str

    def applied(self, record: QuestionRecord) -> QuestionRecord:
        """The record with its confidence, and with "I do not know" in the place of an answer that is withheld.

        An answer that says so itself stays as it is. The explanation of one that is withheld would give it away, and is
        left out.

        Args:
            record: Of a question that has an answer.
        """
        confidence = self.confidence.of(record)
        if confidence >= self.threshold or abstained(record):
            return record.model_copy(update={"confidence": confidence})
        withheld = {"answer": WITHHELD, "answer_source": "withheld", "withheld": record.answer, "explanation": ""}
        return record.model_copy(update={"confidence": confidence, **withheld})

    def spec(self) -> Mapping[str, Any]:
        """What answers depend on, for fingerprints and the headers of run files."""
        return {
            "threshold": self.threshold,
            "risk": self.risk,
            "delta": self.delta,
            "calibrated_on": self.calibrated_on,
        }
