"""Gates that retrieve by chance: the level that a gate has to beat to have found out what the LM knows."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Probability, Seed, Share, checked
from keqa.programs.gates.base import LeaderGate
from keqa.programs.gates.votes import Votes


@checked
@dataclass(frozen=True)
class RandomGate(LeaderGate):
    """Retrieves for a share of the quizzes, whatever the draws say.

    Chance is a number of the quiz's text and the seed, so that a rerun gives the same verdicts, in any order. It is
    tossed for each text by itself, so that of few quizzes rather more or fewer are retrieved for; `MatchedRandomGate`
    retrieves for a number of them.

    Attributes:
        threshold: The share of quizzes to retrieve for; 0 and 1 are allowed.
        seed: Another seed retrieves for others.
    """

    method = "gate-random"
    title = "Random at a matched ratio"
    kind = "random"
    needs = "run"

    threshold: Annotated[Fraction, Share]
    seed: Seed = 0
    needs_all_draws: bool = False

    @property
    def name(self) -> str:
        """For records."""
        return f"random, retrieving {float(self.threshold):.3g}"

    def retrieves(self, votes: Votes) -> bool:
        """For that share of quizzes."""
        return self.measure(votes) < self.threshold

    def measure(self, votes: Votes) -> float:
        """The quiz's number, evenly distributed from 0 to 1.

        Raises:
            ConfigurationError: The votes do not say which quiz they are for.
        """
        if not votes.quiz:
            raise ConfigurationError("the random gate needs the text of the quiz")
        return _number(self.seed, votes.quiz)


@checked
@dataclass(frozen=True)
class MatchedRandomGate(LeaderGate):
    """Retrieves for as many quizzes as another method did, drawn by chance: KBM's Random (section 3.2).

    A method that retrieves as often and answers no better has not found out what the LM knows. The quizzes of the other
    run are in the order of their numbers, which are those of their places and the seed; the first of them are retrieved
    for. Places stay the same whatever is answered to earlier quizzes, where resolved texts do not.

    Attributes:
        threshold: The share of quizzes that the other method classified as unknown.
        cut: Quizzes with a lower number are retrieved for.
        seed: Another seed retrieves for others.
    """

    kind = "matched random"

    threshold: Annotated[Fraction, Share]
    cut: Probability
    seed: Seed = 0
    needs_all_draws: bool = False

    @classmethod
    def of(cls, verdicts: Iterable[tuple[str, bool]], seed: int = 0) -> MatchedRandomGate:
        """The gate that retrieves for exactly as many quizzes.

        Quizzes of one place, as of a question that is in the data twice, have one number and are retrieved for
        together; where that leaves no exact cut, the nearest is taken.

        Args:
            verdicts: Of each quiz of the other run its place, as in `Votes.place`, and whether it was classified as
                known.
            seed: Another seed retrieves for others.

        Raises:
            ConfigurationError: There is no verdict.
        """
        numbers, unknown = [], 0
        for place, known in verdicts:
            numbers.append(_number(seed, place))
            unknown += not known
        if not numbers:
            raise ConfigurationError("a random gate can match a run only where that has verdicts on quizzes")
        numbers.sort()
        cut = min([*numbers, 1.0], key=lambda one: abs(bisect_left(numbers, one) - unknown))
        return cls(Fraction(unknown, len(numbers)), cut, seed)

    @property
    def name(self) -> str:
        """For records."""
        return f"random, matching {float(self.threshold):.3g}"

    def retrieves(self, votes: Votes) -> bool:
        """Below the cut."""
        return self.measure(votes) < self.cut

    def measure(self, votes: Votes) -> float:
        """The number of the quiz's place, evenly distributed from 0 to 1.

        Raises:
            ConfigurationError: The votes do not say it.
        """
        if not votes.place:
            raise ConfigurationError("a random gate that matches a run decides on quizzes of questions only")
        return _number(self.seed, votes.place)


def _number(seed: int, text: str) -> float:
    digest = hashlib.blake2b(f"{seed}|{text}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
