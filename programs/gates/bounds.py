"""Gates that measure nothing: the bounds of a comparison of gates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from keqa.data.quiz_references import plain
from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match
from keqa.metrics.utility import Correctness
from keqa.programs.arguments import CORRECTNESS, GOLDS, Share, Word, checked
from keqa.programs.gates.base import LeaderGate
from keqa.programs.gates.votes import Votes, reaches

Golds = Mapping[str, Sequence[str]] | Callable[[str], Sequence[str] | None]
"""From the resolved text of a quiz to its gold answers."""


@checked
@dataclass(frozen=True)
class AlwaysRetrieveGate(LeaderGate):
    """Takes nothing for known; it needs no draws, which are made only where an answer falls back to them."""

    method = "gate-always"
    title = "Always retrieve"
    kind = "always retrieve"

    name: Word = "always retrieve"
    needs_all_draws: bool = False
    threshold: None = None

    def retrieves(self, votes: Votes) -> bool:
        """Always."""
        return True


@checked
@dataclass(frozen=True)
class NeverRetrieveGate(LeaderGate):
    """Takes everything for known: the largest cluster answers, however small."""

    method = "gate-never"
    title = "Never retrieve"
    kind = "never retrieve"

    name: Word = "never retrieve"
    needs_all_draws: bool = False
    threshold: None = None


@checked
@dataclass(frozen=True)
class OracleGate(LeaderGate):
    """Known where the answer from memory is right: the ideal gate, which bounds what any gate can reach.

    Attributes:
        golds: The gold answers of each quiz, by its resolved text (spaces and case do not matter in a mapping).
        correctness: How right an answer is, such as `keqa.metrics.answers.exact_match` or ``f1``.
        threshold: From which correctness on an answer is right.
    """

    method = "gate-oracle"
    title = "Oracle"
    kind = "oracle"
    needs = "golds"
    savable = False

    golds: Annotated[Golds, GOLDS] = field(repr=False)
    correctness: Annotated[Correctness, CORRECTNESS] = exact_match
    threshold: Annotated[Fraction, Share] = Fraction(1)
    name: Word = "oracle"
    needs_all_draws: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.golds, Mapping):
            object.__setattr__(self, "golds", {plain(quiz): answers for quiz, answers in self.golds.items()})

    def knows(self, votes: Votes) -> bool:
        """Whether the leading answer is right.

        Raises:
            ConfigurationError: There is no gold answer for the quiz.
        """
        return reaches(self.measure(votes), self.threshold)

    def measure(self, votes: Votes) -> float:
        """How right the leading answer is; 0 where there is none.

        Raises:
            ConfigurationError: There is no gold answer for the quiz.
        """
        known = self.golds
        golds = known.get(plain(votes.quiz)) if isinstance(known, Mapping) else known(votes.quiz)
        if not golds:
            raise ConfigurationError(f"the oracle gate has no gold answer for the quiz {votes.quiz!r}")
        return float(self.correctness(votes.leading, list(golds), votes.answer_type, votes.choices))
