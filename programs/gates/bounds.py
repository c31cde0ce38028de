"""Gates that measure nothing: the bounds of a comparison of gates, and chance."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

from keqa.data.question import quiz_key
from keqa.errors import ConfigurationError
from keqa.metrics.answers import exact_match
from keqa.metrics.utility import Correctness
from keqa.programs.arguments import CORRECTNESS, GOLDS, Seed, Share, Word, checked
from keqa.programs.gate import Draws, LeaderGate, Verdict, reaches

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
    threshold: None = None

    def at_once(self, draws: Draws) -> Verdict:
        return Verdict(False)


@checked
@dataclass(frozen=True)
class NeverRetrieveGate(LeaderGate):
    """Takes everything for known: the largest cluster answers, however small."""

    method = "gate-never"
    title = "Never retrieve"
    kind = "never retrieve"

    name: Word = "never retrieve"
    threshold: None = None


@checked
@dataclass(frozen=True)
class RandomGate(LeaderGate):
    """Retrieves for a share of the quizzes, its threshold, whatever the draws say: the level that a gate has to beat.

    Chance is a number of the quiz's text and the seed, so that a rerun gives the same verdicts, in any order. It is
    tossed for each text by itself, so the share is that of many quizzes.
    """

    method = "gate-random"
    title = "Random"
    kind = "random"

    threshold: Annotated[Fraction, Share]
    seed: Seed = 0

    @property
    def name(self) -> str:
        return f"random, retrieving {float(self.threshold):.3g}"

    def chance(self, quiz: str) -> float:
        """The quiz's number, evenly distributed from 0 to 1."""
        digest = hashlib.blake2b(f"{self.seed}|{quiz}".encode(), digest_size=8).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53

    def at_once(self, draws: Draws) -> Verdict | None:
        chance = self.chance(draws.quiz)
        return Verdict(False, chance) if chance < self.threshold else None

    def on_leader(self, draws: Draws) -> Verdict:
        return Verdict(True, self.chance(draws.quiz))


@checked
@dataclass(frozen=True)
class OracleGate(LeaderGate):
    """Known where the answer from memory is right by its gold answers: the ideal, which bounds what any gate can reach.

    Spaces and case do not matter to the quizzes of a mapping; an answer is right from a correctness of `threshold` on.
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

    def __post_init__(self) -> None:
        if isinstance(self.golds, Mapping):
            object.__setattr__(self, "golds", {quiz_key(quiz): answers for quiz, answers in self.golds.items()})

    def on_leader(self, draws: Draws) -> Verdict:
        known = self.golds
        golds = known.get(quiz_key(draws.quiz)) if isinstance(known, Mapping) else known(draws.quiz)
        if not golds:
            raise ConfigurationError(f"the oracle gate has no gold answer for the quiz {draws.quiz!r}")
        measure = float(self.correctness(draws.leading, list(golds), draws.answer_type, draws.choices))
        return Verdict(reaches(measure, self.threshold), measure)
