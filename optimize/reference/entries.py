"""What the utility reference is made of (KEQA, section 3.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import ConfigDict, Field

from keqa.programs.records import Record

Basis = Literal["question", "quiz"]


class UtilityEntry(Record):
    """A passage that helped or harmed: an element of R."""

    root: str
    quiz: str
    passage: str
    passage_id: str
    helpful: bool
    gain: float
    basis: Basis
    question: str = ""
    date: str = ""


class Labelled(Record):
    """What came of one training question."""

    # Journals of versions before hold what it cost as well.
    model_config = ConfigDict(extra="ignore")

    root: str
    entries: tuple[UtilityEntry, ...] = ()
    of_no_consequence: int = 0
    left_out: int = 0
    lost: dict[str, int] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
    passing: str = ""

    @property
    def complete(self) -> bool:
        """Whether no call failed for a reason that may pass."""
        return not self.passing


class UtilityEntries(list[UtilityEntry]):
    """The utility reference R of a train split: its entries, in the order of the training questions."""

    def __init__(self, questions: Iterable[Labelled]) -> None:
        self.questions = list(questions)
        super().__init__(entry for question in self.questions for entry in question.entries)

    @property
    def problems(self) -> dict[str, tuple[str, ...]]:
        """By id, the training questions that gave less than they could, such as those without a passage, and why."""
        return {question.root: question.problems for question in self.questions if question.problems}

    @property
    def left_out(self) -> int:
        """Passages without a label because a call failed."""
        return sum(question.left_out for question in self.questions)

    @property
    def lost(self) -> dict[str, dict[str, int]]:
        """By the error that calls failed with, the training questions and how many passages of each have no label."""
        found: dict[str, dict[str, int]] = {}
        for question in self.questions:
            for cause, count in question.lost.items():
                found.setdefault(cause, {})[question.root] = count
        return found

    def counts(self) -> dict[bool, int]:
        """How many entries are helpful (True) and harmful (False)."""
        helpful = sum(entry.helpful for entry in self)
        return {True: helpful, False: len(self) - helpful}
