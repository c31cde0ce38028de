"""What every boundary model is given, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from keqa.errors import KeqaError

if TYPE_CHECKING:
    from keqa.programs.gates.votes import Votes

Reads = Literal["quiz", "draft", "draws", "as-needed"]
"""What a boundary model reads, which is what it costs: the quiz alone, one draw beside it, all draws, or one draw and
all of them where these are worth it."""


class BoundaryError(KeqaError):
    """A boundary model has no judgement on a quiz; a gate takes the quiz for unknown."""


@dataclass(frozen=True)
class Judgement:
    """What a boundary model says of a quiz (KBM, section 2.3), each from 0 to 1.

    Attributes:
        mastery: How probably the answer from memory is right.
        certainty: How much the draws would agree with each other.
    """

    mastery: float
    certainty: float


@dataclass(frozen=True)
class Signals:
    """The draws that were made for a quiz, as far as a boundary model reads them.

    Attributes:
        answers: The text of each draw; None for an abstention or a failure.
        probabilities: That the LM gave to each answer, normalised by its length; empty where it gives none.
        first_tokens: The probability of each answer's first token; empty where the LM gives none.
        answer_type: What kind of answer the quiz wants.
        choices: The options of a choice.
    """

    answers: tuple[str | None, ...] = ()
    probabilities: tuple[float | None, ...] = ()
    first_tokens: tuple[float | None, ...] = ()
    answer_type: str = "short"
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, votes: Votes) -> Signals:
        """What the draws of a quiz show so far."""
        return cls(votes.answers, votes.probabilities, votes.first_tokens, votes.answer_type, votes.choices)

    @property
    def draft(self) -> Signals:
        """The first draw alone."""
        return Signals(self.answers[:1], self.probabilities[:1], self.first_tokens[:1], self.answer_type, self.choices)

    @property
    def has_probabilities(self) -> bool:
        """Whether every answer was drawn with its probability; an abstention needs none."""
        if not self.probabilities:
            return bool(self.answers) and all(answer is None for answer in self.answers)
        if len(self.probabilities) != len(self.answers):
            return False
        pairs = zip(self.answers, self.probabilities, strict=True)
        return all(probability is not None for answer, probability in pairs if answer is not None)


class BoundaryModel(Protocol):
    """Judges whether a language model knows the answer to a quiz. Safe to call from many threads."""

    @property
    def reads(self) -> Reads:
        """What it needs before it can judge."""

    @property
    def uses_probabilities(self) -> bool:
        """Whether its judgement is better where the draws come with the probabilities of their tokens."""

    def judge(self, quiz: str, signals: Signals, reference: str | None = None) -> Judgement:
        """Judge a quiz.

        Args:
            quiz: Its resolved text.
            signals: The draws that were made; of more than it reads, the first ones count.
            reference: Passages that the LM would be given, for models that judge with them; others read none.

        Raises:
            BoundaryError: It cannot judge.
        """

    def written(self) -> dict[str, Any]:
        """All that it is, as JSON values."""

    def spec(self) -> Mapping[str, Any]:
        """What its judgements depend on, in short: for fingerprints and the headers of run files."""
