"""What a gate is and says, two ways to decide, and KEQA's own: the consistency of samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from keqa.errors import ConfigurationError
from keqa.programs.arguments import Threshold, Word, checked
from keqa.programs.draws import Draws, leader, leader_is_fixed
from keqa.programs.gates.question import GateQuestion
from keqa.programs.records import Degradation
from keqa.retrievers.text import shown

IF_ANY: Literal["probabilities, if any"] = "probabilities, if any"
"""What a gate asks that decides by token probabilities as well, and without them where the LM gives none."""

Asks: TypeAlias = type[GateQuestion] | Literal["probabilities", "probabilities, if any"] | None
"""What a gate wants beyond the samples' texts: a question to the LM, the samples' token probabilities, or nothing."""


@dataclass(frozen=True)
class Verdict:
    """What a gate says of a quiz.

    Attributes:
        known: Whether the language model knows its answer.
        measure: What the gate found, where it is not T_c; records hold it, and quizzes are ranked by it.
        why: Why no further draw is made, where records shall say more than usual.
        note: What went wrong in the measure; whose quiz it is is filled in.
    """

    known: bool
    measure: float | None = None
    why: str | None = None
    note: Degradation | None = None


@runtime_checkable
class Gate(Protocol):
    """Decides whether a quiz is known."""

    @property
    def name(self) -> str:
        """For records."""

    @property
    def threshold(self) -> Fraction | None:
        """What its measure is compared with; None where it has none."""

    def decide(self, draws: Draws) -> Verdict | int:
        """A verdict that no further draw changes, or how many draws to make next: the fewest that could bring one."""


class NamedGate:
    """A gate that has a name in comparisons, tables and saved programs; see `keqa.programs.registry.register_gate`.

    Attributes:
        method: The method's name, such as ``gate-votes``; None where the gate is no method by itself.
        title: What tables call the method.
        kind: What figures and tables call this kind of gate, its form and threshold left out.
        asks: What it wants beyond the samples' texts.
        needs: What it needs beyond samples and arguments: ``golds`` are given to it as `golds`.
        savable: Whether a saved program may hold it: all it is must be in its arguments.
        shares_draws: Whether it decides in a comparison on the draws that all gates share, and not on its own.
    """

    method: ClassVar[str | None] = None
    title: ClassVar[str] = ""
    kind: ClassVar[str]
    asks: ClassVar[Asks] = None
    needs: ClassVar[Literal["golds"] | None] = None
    savable: ClassVar[bool] = True
    shares_draws: ClassVar[bool] = True

    @classmethod
    def check_saved(cls, values: Mapping[str, Any]) -> None:
        """Refuse arguments, by name, of a saved program, which may be a stranger's, that only a user may give."""


class LeaderGate(NamedGate):
    """A gate that decides about the leading answer, as soon as no further draw can change which one leads."""

    def at_once(self, draws: Draws) -> Verdict | None:
        """A verdict that takes no draw; usually none."""
        return None

    def on_leader(self, draws: Draws) -> Verdict:
        """The verdict on the leading answer, which is fixed; it is known where a gate does not say otherwise."""
        return Verdict(True)

    def decide(self, draws: Draws) -> Verdict | int:
        """See `Gate.decide`."""
        if (verdict := self.at_once(draws)) is not None:
            return verdict
        return self.on_leader(draws) if draws.leader_is_fixed else smallest_wave(draws)


class AllSamplesGate(NamedGate, ABC):
    """A gate whose measure takes all samples of a quiz, and that is compared with a threshold."""

    threshold: Any

    @abstractmethod
    def measure(self, draws: Draws) -> float:
        """What is compared with the threshold, of all draws."""

    def decide(self, draws: Draws) -> Verdict | int:
        """See `Gate.decide`."""
        if draws.left:
            return draws.left
        measure = self.measure(draws)
        return Verdict(reaches(measure, self.threshold), measure)


@checked
@dataclass(frozen=True)
class VoteGate(NamedGate):
    """KEQA's gate: known where T_c reaches α (section 3.3).

    Attributes:
        threshold: α. Votes are compared with it as fractions, so that 27 of 30 reach .9.
    """

    method = "gate-votes"
    title = "KEQA's vote"
    kind = "votes"

    threshold: Annotated[Fraction, Threshold] = Fraction(4, 5)
    name: Word = "votes"

    def decide(self, draws: Draws) -> Verdict | int:
        """Known once enough agree and none can overtake them; unknown once too few draws are left."""

        def known(sizes: Sequence[int], left: int) -> bool | None:
            largest = max(sizes, default=0)
            if Fraction(largest, draws.tries) >= self.threshold:
                return True if leader_is_fixed(sizes, left) else None
            return False if Fraction(largest + left, draws.tries) < self.threshold else None

        verdict = known(draws.sizes, draws.left)
        if verdict is not None:
            return Verdict(verdict)
        return smallest_wave(draws, lambda sizes, left: known(sizes, left) is not None)


def smallest_wave(draws: Draws, settled: Callable[[Sequence[int], int], bool] = leader_is_fixed) -> int:
    """The smallest number of draws that could settle something: if they all joined the largest cluster."""
    sizes, left = draws.sizes or [0], draws.left
    first = leader(sizes) or 0
    for more in range(1, left):
        sizes[first] += 1
        if settled(sizes, left - more):
            return more
    return left


def as_fraction(value: Fraction | float | int | str) -> Fraction:
    """A threshold as the exact fraction that its writing says: 0.8 is 4/5, not the nearest binary number."""
    try:
        found: Fraction = Threshold.read(value)
    except ValueError:
        raise ConfigurationError(f"a threshold must be {Threshold.allowed}, not {shown(value)}") from None
    return found


def reaches(measure: float, threshold: Fraction) -> bool:
    """Whether a measure is at least a threshold, by its writing: a stated 0.7 reaches 7/10, which no float equals."""
    return Fraction(str(round(measure, 12))) >= threshold


def asks(gate: Any) -> Asks:
    """What a gate, or a class of gates, wants beyond the texts of the samples; None for most."""
    wanted: Any = getattr(gate, "asks", None)
    if wanted in (None, "probabilities", IF_ANY) or (isinstance(wanted, type) and issubclass(wanted, GateQuestion)):
        return wanted  # type: ignore[no-any-return]
    raise ConfigurationError(f"a gate asks 'probabilities' or a GateQuestion class, not {wanted!r:.80}")


def question_of(gate: Any) -> type[GateQuestion] | None:
    """What a gate, or a class of gates, asks the LM in a call of its own; None for most."""
    wanted = asks(gate)
    return wanted if isinstance(wanted, type) else None
