"""A gate that retrieves by chance: the level that a gate has to beat to have found out what the LM knows."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Seed, Share, checked
from keqa.programs.gates.base import LeaderGate
from keqa.programs.gates.votes import Votes


@checked
@dataclass(frozen=True)
class RandomGate(LeaderGate):
    """Retrieves for a share of the quizzes, whatever the draws say.

    Chance is a number of the quiz's text and the seed, so that a rerun gives the same verdicts, in any order. It is
    tossed for each text by itself, so that of few quizzes rather more or fewer are retrieved for. What random retrieval
    scores at exactly the ratio of another gate, tables say in expectation.

    Attributes:
        threshold: The share of quizzes to retrieve for; 0 and 1 are allowed.
        seed: Another seed retrieves for others.
    """

    method = "gate-random"
    title = "Random"
    kind = "random"

    threshold: Annotated[Fraction, Share]
    seed: Seed = 0
    needs_all_draws: bool = False

    @property
    def name(self) -> str:
        """For records."""
        return f"random, retrieving {float(self.threshold):.3g}"

    def measure(self, votes: Votes) -> float:
        """The quiz's number, evenly distributed from 0 to 1.

        Raises:
            ConfigurationError: The votes do not hold its text.
        """
        if not votes.quiz:
            raise ConfigurationError("the random gate needs the text of the quiz")
        digest = hashlib.blake2b(f"{self.seed}|{votes.quiz}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53

    def retrieves(self, votes: Votes) -> bool:
        """For that share of the numbers."""
        return self.measure(votes) < self.threshold
