"""How often a language model's output could not be read, from records.

A method that loses because its format is unknown to the LM has not been compared; a table has to show that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keqa.programs.records import QuestionRecord

UNREADABLE = frozenset({"AdapterParseError", "EmptyAnswerError", "TruncatedReplyError", "UnreadableConfidenceError"})
"""Causes of a reply that came and could not be used: not in the format, empty, cut at the token limit, or without the
number that was asked for."""

NOT_COMPARABLE_ABOVE = Fraction(1, 10)
"""A method whose outputs did not parse more often than this was not measured, its prompts were."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """How many outputs could not be used.

    Attributes:
        failed: Outputs that did not parse.
        outputs: Replies drawn, now or before by what a cache answered; a request may bring several.
    """

    failed: int
    outputs: int

    @property
    def share(self) -> Fraction:
        """The share that did not parse; 0 where nothing was asked."""
        return Fraction(self.failed, self.outputs) if self.outputs else Fraction(0)

    @property
    def comparable(self) -> bool:
        """Whether a row with this share may be compared with others."""
        return self.share <= NOT_COMPARABLE_ABOVE


def unreadable(record: QuestionRecord) -> int:
    """How many outputs of a question did not parse.

    Each one is a degradation in its record, except one that nothing stood in for, which is the failure of its question.
    """
    noted = [(note.stage, note.cause) for note in record.degradations if note.cause in UNREADABLE]
    end = record.failure
    alone = end is not None and end.cause in UNREADABLE and (end.stage, end.cause) not in noted
    return len(noted) + alone
