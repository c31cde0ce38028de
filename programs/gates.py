"""Gates: from the clustered samples of a quiz to the verdict whether the language model knows its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from keqa.errors import ConfigurationError
from keqa.metrics.answers import normalize
from keqa.metrics.certainty import CERTAINTIES, CertaintyForm

__all__ = [
    "AlwaysRetrieveGate",
    "CertaintyGate",
    "Gate",
    "NeverRetrieveGate",
    "VoteGate",
    "Votes",
    "as_fraction",
    "leader",
    "leader_is_fixed",
]


@dataclass(frozen=True)
class Votes:
    """What is known of a quiz after some of its draws.

    Attributes:
        sizes: Sizes of the clusters, in the order of their first members.
        drawn: Draws made, abstentions and failures included.
        tries: N_c, the draws there will be at most.
        answers: The text of each draw; None for an abstention or a failure.
    """

    sizes: tuple[int, ...]
    drawn: int
    tries: int
    answers: tuple[str | None, ...] = ()

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
        ...

    @property
    def needs_all_draws(self) -> bool:
        """Whether a verdict takes all N_c draws. Such a gate refuses a set that was stopped early."""
        ...

    @property
    def threshold(self) -> Fraction | None:
        """What its measure is compared with; None where it has none."""
        ...

    def decide(self, votes: Votes) -> bool | None:
        """Known or not; None while further draws could change that, or the answer of a known quiz."""
        ...

    def wave(self, votes: Votes) -> int:
        """How many draws to make next, while undecided: the smallest number that could decide for known."""
        ...

    def measure(self, votes: Votes) -> float | None:
        """The gate's own measure for the records, where it is not T_c."""
        ...


def as_fraction(value: Fraction | float | int | str) -> Fraction:
    """A threshold as the exact fraction that its writing says: 0.8 is 4/5, not the nearest binary number.

    Raises:
        ConfigurationError: It is not a number from 0 to 1, 0 excluded.
    """
    try:
        fraction = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(f"a threshold must be a number such as 0.8 or '4/5', not {value!r}") from None
    if not 0 < fraction <= 1:
        raise ConfigurationError(f"a threshold must be above 0 and at most 1, not {value}")
    return fraction


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


def _smallest_deciding_wave(gate: Gate, votes: Votes) -> int:
    """The smallest number of draws that could decide: if they all joined the largest cluster."""
    first = leader(votes.sizes)
    for more in range(1, votes.left):
        sizes = list(votes.sizes) or [0]
        sizes[first or 0] += more
        if gate.decide(Votes(tuple(sizes), votes.drawn + more, votes.tries)) is not None:
            return more
    return votes.left


@dataclass(frozen=True)
class VoteGate:
    """KEQA's gate: known where T_c reaches α (section 3.3).

    Attributes:
        threshold: α. Votes are compared with it as fractions, so that 27 of 30 reach .9.
    """

    threshold: Fraction = Fraction(4, 5)
    name: str = "votes"
    needs_all_draws: bool = False

    def decide(self, votes: Votes) -> bool | None:
        """Known once enough agree and none can overtake them; unknown once too few draws are left."""
        if votes.consistency >= self.threshold:
            return True if leader_is_fixed(votes) else None
        reachable = Fraction(votes.largest + votes.left, votes.tries)
        return False if reachable < self.threshold else None

    def wave(self, votes: Votes) -> int:
        """At first the smallest number of votes that reaches α."""
        return _smallest_deciding_wave(self, votes)

    def measure(self, votes: Votes) -> None:
        """Its measure is T_c."""
        return None


@dataclass(frozen=True)
class CertaintyGate:
    """Known where the certainty over the samples reaches a threshold (KBM, section 2.2).

    An abstention agrees with nothing, so each is a group of its own; without any answer a quiz is unknown.

    Attributes:
        threshold: What certainty is compared with.
        form: One of `keqa.metrics.certainty.CERTAINTIES`.
        over: ``clusters`` of one meaning, or ``types``: answers equal after normalisation.
    """

    threshold: Fraction = Fraction(4, 5)
    form: CertaintyForm = "by_types"
    over: str = "clusters"
    needs_all_draws: bool = True

    def __post_init__(self) -> None:
        if self.form not in CERTAINTIES or self.over not in ("clusters", "types"):
            raise ConfigurationError(f"no certainty of form {self.form!r} over {self.over!r}")

    @property
    def name(self) -> str:
        """For records, such as ``certainty by_types over clusters``."""
        return f"certainty {self.form} over {self.over}"

    def decide(self, votes: Votes) -> bool | None:
        """Known or not, from all draws.

        Raises:
            ConfigurationError: The set was stopped early.
        """
        certainty = self.measure(votes)
        return bool(votes.sizes) and certainty >= float(self.threshold)

    def wave(self, votes: Votes) -> int:
        """All that are left."""
        return votes.left

    def measure(self, votes: Votes) -> float:
        """The certainty.

        Raises:
            ConfigurationError: The set was stopped early.
        """
        if votes.left:
            raise ConfigurationError(
                f"the gate '{self.name}' needs all {votes.tries} draws; this set was stopped after {votes.drawn}"
            )
        sizes = list(votes.sizes)
        if self.over == "types":
            types = [normalize(answer) for answer in votes.answers if answer is not None]
            sizes = [types.count(kind) for kind in dict.fromkeys(types)]
        alone = votes.drawn - sum(sizes)
        return CERTAINTIES[self.form](sizes + [1] * alone)


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
        return _smallest_deciding_wave(self, votes)

    def measure(self, votes: Votes) -> None:
        """It measures nothing."""
        return None
