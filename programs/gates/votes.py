"""What a gate reads: the clustered samples of a quiz, and what can still become of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Threshold
from keqa.retrievers.text import shown


@dataclass(frozen=True)
class Votes:
    """What is known of a quiz after some of its draws.

    Attributes:
        sizes: Sizes of the clusters, in the order of their first members.
        drawn: Draws made, abstentions and failures included.
        tries: N_c, the draws there will be at most.
        answers: The text of each draw; None for an abstention or a failure.
        quiz: Its resolved text.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        leading: A_c so far, the first member of the largest cluster; None where there is none.
        reply: What the LM replied to the gate's own question (`keqa.programs.stages.gate_question`); None where it was
            not asked.
        probabilities: Of each draw, where they were asked for; None for one that failed.
        first_tokens: The probability of the first token of each draw's answer, likewise.
        place: Which quiz of which question it is; empty where it is asked by itself.
    """

    sizes: tuple[int, ...]
    drawn: int
    tries: int
    answers: tuple[str | None, ...] = ()
    quiz: str = ""
    answer_type: str = "short"
    choices: tuple[str, ...] = ()
    leading: str | None = None
    reply: Any = None
    probabilities: tuple[float | None, ...] = ()
    place: str = ""
    first_tokens: tuple[float | None, ...] = ()

    @property
    def left(self) -> int:
        """Draws not made yet."""
        return self.tries - self.drawn

    @property
    def largest(self) -> int:
        """Size of the largest cluster, 0 where there is none."""
        return max(self.sizes, default=0)

    @property
    def consistency(self) -> Fraction:
        """T_c, exactly: the largest cluster over all tries."""
        return Fraction(self.largest, self.tries)


@runtime_checkable
class Gate(Protocol):
    """Decides whether a quiz is known."""

    @property
    def name(self) -> str:
        """For records."""

    @property
    def needs_all_draws(self) -> bool:
        """Whether a verdict takes all N_c draws. Such a gate refuses a set that was stopped early."""

    @property
    def threshold(self) -> Fraction | None:
        """What its measure is compared with; None where it has none."""

    def decide(self, votes: Votes) -> bool | None:
        """Known or not; None while further draws could change that, or the answer of a known quiz."""

    def wave(self, votes: Votes) -> int:
        """How many draws to make next, while undecided: the smallest number that could decide for known."""

    def measure(self, votes: Votes) -> float | None:
        """The gate's own measure for the records, where it is not T_c."""


def as_fraction(value: Fraction | float | int | str) -> Fraction:
    """A threshold as the exact fraction that its writing says: 0.8 is 4/5, not the nearest binary number.

    Raises:
        ConfigurationError: It is not a number from 0 to 1, 0 excluded.
    """
    try:
        found: Fraction = Threshold.read(value)
    except ValueError:
        raise ConfigurationError(f"a threshold must be {Threshold.allowed}, not {shown(value)}") from None
    return found


def reaches(measure: float, threshold: Fraction) -> bool:
    """Whether a measure is at least a threshold, by its writing: a stated 0.7 reaches 7/10, which no float equals."""
    return Fraction(str(round(measure, 12))) >= threshold


def leader(sizes: Sequence[int]) -> int | None:
    """Position of the largest cluster, the first one of equals (Algorithm 1, line 15)."""
    return max(range(len(sizes)), key=lambda position: sizes[position]) if sizes else None


def leader_is_fixed(votes: Votes) -> bool:
    """Whether no outcome of the remaining draws changes which cluster is the largest."""
    first = leader(votes.sizes)
    if first is None:
        return votes.left == 0
    size = votes.sizes[first]
    # An earlier cluster overtakes by drawing level; a later one, or a new one, has to be larger.
    rivals = [other + (position < first) for position, other in enumerate(votes.sizes) if position != first]
    return max([0, *rivals]) + votes.left <= size


def smallest_wave(votes: Votes, settled: Callable[[Votes], bool]) -> int:
    """The smallest number of draws that could settle something: if they all joined the largest cluster."""
    first = leader(votes.sizes)
    for more in range(1, votes.left):
        sizes = list(votes.sizes) or [0]
        sizes[first or 0] += more
        if settled(replace(votes, sizes=tuple(sizes), drawn=votes.drawn + more)):
            return more
    return votes.left
