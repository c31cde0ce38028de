"""Gates that retrieve by chance: the level that a gate has to beat to have found out what the LM knows."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Probability, Seed, Share, checked
from keqa.programs.gates.base import LeaderGate
from keqa.programs.gates.votes import Votes


class NumberGate(LeaderGate):
    """A gate that gives each quiz a number by chance; subclasses say below which one they retrieve.

    Attributes:
        verb: What it does to the share that its name has.
        number_of: What of the votes the number is of.
        missing: What is said where the votes do not hold that.
    """

    verb: ClassVar[str]
    number_of: ClassVar[Literal["quiz", "place"]]
    missing: ClassVar[str]

    threshold: Any
    seed: Any

    @property
    def name(self) -> str:
        """For records."""
        return f"random, {self.verb} {float(self.threshold):.3g}"

    def measure(self, votes: Votes) -> float:
        """The quiz's number, evenly distributed from 0 to 1.

        Raises:
            ConfigurationError: The votes do not hold what it is of.
        """
        text = getattr(votes, self.number_of)
        if not text:
            raise ConfigurationError(self.missing)
        return _number(self.seed, text)


@checked
@dataclass(frozen=True)
class RandomGate(NumberGate):
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
    verb = "retrieving"
    number_of = "quiz"
    missing = "the random gate needs the text of the quiz"

    threshold: Annotated[Fraction, Share]
    seed: Seed = 0
    needs_all_draws: bool = False

    def retrieves(self, votes: Votes) -> bool:
        """For that share of the numbers."""
        return self.measure(votes) < self.threshold


@checked
@dataclass(frozen=True)
class MatchedRandomGate(NumberGate):
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
    verb = "matching"
    number_of = "place"
    missing = "a random gate that matches a run decides on quizzes of questions only"

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

    def retrieves(self, votes: Votes) -> bool:
        """Below the cut."""
        return self.measure(votes) < self.cut


def _number(seed: int, text: str) -> float:
    digest = hashlib.blake2b(f"{seed}|{text}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53
