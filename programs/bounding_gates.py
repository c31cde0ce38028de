"""Gates that measure nothing: the bounds and the chance level of a comparison of gates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match
from keqa.metrics.utility import Correctness
from keqa.programs.references import plain
from keqa.programs.votes import Votes, leader_is_fixed, reaches, smallest_wave

__all__ = ["AlwaysRetrieveGate", "Golds", "NeverRetrieveGate", "OracleGate", "RandomGate"]

Golds = Mapping[str, Sequence[str]] | Callable[[str], Sequence[str] | None]
"""From the resolved text of a quiz to its gold answers."""


@dataclass(frozen=True)
class AlwaysRetrieveGate:
    """Takes nothing for known; it needs no draws, which are made only where an answer falls back to them."""

    name: str = "always retrieve"
    needs_all_draws: bool = False
    threshold: None = None

    def decide(self, votes: Votes) -> bool:
        """Unknown."""
        return False

    def wave(self, votes: Votes) -> int:
        """None."""
        return 0

    def measure(self, votes: Votes) -> None:
        """It measures nothing."""
        return None


@dataclass(frozen=True)
class NeverRetrieveGate:
    """Takes everything for known: the largest cluster answers, however small."""

    name: str = "never retrieve"
    needs_all_draws: bool = False
    threshold: None = None

    def decide(self, votes: Votes) -> bool | None:
        """Known, once it is fixed with which answer."""
        return True if leader_is_fixed(votes) else None

    def wave(self, votes: Votes) -> int:
        """The smallest number that can fix the largest cluster."""
        return smallest_wave(votes, leader_is_fixed)

    def measure(self, votes: Votes) -> None:
        """It measures nothing."""
        return None


@dataclass(frozen=True)
class RandomGate:
    """Retrieves for a share of the quizzes, whatever the draws say: KBM's Random at a matched ratio (section 3).

    Chance is a number of the quiz's text and the seed, so that a rerun gives the same verdicts, in any order. A method
    that retrieves as often and answers no better has not found out what the LM knows.

    Attributes:
        threshold: The share of quizzes to retrieve for, that of the gate to be matched; 0 and 1 are allowed.
        seed: Another seed retrieves for others.
    """

    threshold: Fraction
    seed: int = 0
    needs_all_draws: bool = False

    def __post_init__(self) -> None:
        try:
            share = Fraction(str(self.threshold))
        except (ValueError, ZeroDivisionError):
            share = Fraction(-1)
        if not 0 <= share <= 1:
            raise ConfigurationError(f"a share must be a number from 0 to 1, not {self.threshold!r}")
        object.__setattr__(self, "threshold", share)

    @property
    def name(self) -> str:
        """For records."""
        return f"random, retrieving {float(self.threshold):.3g}"

    def decide(self, votes: Votes) -> bool | None:
        """Unknown for that share, else known once it is fixed with which answer."""
        if self.measure(votes) < self.threshold:
            return False
        return True if leader_is_fixed(votes) else None

    def wave(self, votes: Votes) -> int:
        """None where it retrieves, else the smallest number that can fix the largest cluster."""
        return 0 if self.measure(votes) < self.threshold else smallest_wave(votes, leader_is_fixed)

    def measure(self, votes: Votes) -> float:
        """The quiz's number, evenly distributed from 0 to 1.

        Raises:
            ConfigurationError: The votes do not tell which quiz they are for.
        """
        if not votes.quiz:
            raise ConfigurationError("the random gate needs the text of the quiz")
        digest = hashlib.blake2b(f"{self.seed}|{votes.quiz}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53


@dataclass(frozen=True)
class OracleGate:
    """Known where the answer from memory is right: the ideal gate, which bounds what any gate can reach.

    Attributes:
        golds: The gold answers of each quiz, by its resolved text (spaces and case do not matter in a mapping).
        correctness: How right an answer is, such as `keqa.metrics.answers.exact_match` or ``f1``.
        threshold: From which correctness on an answer is right.
    """

    golds: Golds = field(repr=False)
    correctness: Correctness = exact_match
    threshold: Fraction = Fraction(1)
    name: str = "oracle"
    needs_all_draws: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.golds, Mapping):
            object.__setattr__(self, "golds", {plain(quiz): answers for quiz, answers in self.golds.items()})

    def decide(self, votes: Votes) -> bool | None:
        """Known where the leading answer is right, once it is fixed which one leads.

        Raises:
            ConfigurationError: There is no gold answer for the quiz.
        """
        return reaches(self.measure(votes), self.threshold) if leader_is_fixed(votes) else None

    def wave(self, votes: Votes) -> int:
        """The smallest number that can fix the largest cluster."""
        return smallest_wave(votes, leader_is_fixed)

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
