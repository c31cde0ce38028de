"""What a gate class says of itself, read by lists, tables, options and saved programs; two ways to decide."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from keqa.errors import ConfigurationError
from keqa.programs.gates.votes import Votes, leader_is_fixed, reaches, smallest_wave
from keqa.programs.stages.gate_question import GateQuestion

IF_ANY: Literal["probabilities, if any"] = "probabilities, if any"
"""What a gate asks that decides by token probabilities as well, and without them where the LM gives none."""

Asks: TypeAlias = type[GateQuestion] | Literal["probabilities", "probabilities, if any"] | None
"""What a gate wants beyond the samples' texts: a question to the LM, the samples' token probabilities, or nothing."""

Needs: TypeAlias = Literal["golds"]
"""What a gate decides by that no sample holds: the gold answers of quizzes, or how often another run searched."""


@dataclass(frozen=True)
class GateNote:
    """What went wrong in a gate's measure; the arguments of `keqa.programs.records.Degradation`, without the quiz."""

    stage: str
    cause: str
    message: str
    action: str
    harmless: bool = False


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
    needs: ClassVar[Needs | None] = None
    savable: ClassVar[bool] = True
    shares_draws: ClassVar[bool] = True

    @classmethod
    def check_saved(cls, values: Mapping[str, Any]) -> None:
        """Refuse arguments from a saved program, which may be a stranger's, that only a user may give.

        Args:
            values: The arguments by name.

        Raises:
            ConfigurationError: There is such a one.
        """

    def why_stopped(self, votes: Votes) -> str | None:
        """Why no further draw is made of a quiz that it has decided on, where its records shall say more than usual."""
        return None

    def notes(self, votes: Votes) -> Sequence[GateNote]:
        """What went wrong in the measure of a quiz that it has decided on; usually nothing."""
        return ()


class LeaderGate(NamedGate):
    """A gate that decides about the leading answer, as soon as no further sample can change which one leads."""

    def retrieves(self, votes: Votes) -> bool:
        """Whether passages are wanted whatever the samples say; then none is drawn. Usually not."""
        return False

    def knows(self, votes: Votes) -> bool:
        """Whether the leading answer, which is fixed, is known; every one where a gate does not say."""
        return True

    def decide(self, votes: Votes) -> bool | None:
        """Unknown where it retrieves, else its verdict on the answer, once that is fixed."""
        if self.retrieves(votes):
            return False
        return self.knows(votes) if leader_is_fixed(votes) else None

    def wave(self, votes: Votes) -> int:
        """None where it retrieves, else the smallest number that can fix the largest cluster."""
        return 0 if self.retrieves(votes) else smallest_wave(votes, leader_is_fixed)

    def measure(self, votes: Votes) -> float | None:
        """None: it ranks nothing, unless it says otherwise."""
        return None


class AllSamplesGate(NamedGate, ABC):
    """A gate whose measure takes all samples of a quiz, and that is compared with a threshold."""

    name: Any
    threshold: Any

    @abstractmethod
    def measure(self, votes: Votes) -> float:
        """What is compared with the threshold; it begins with `require_all`.

        Raises:
            ConfigurationError: The set was stopped early.
        """

    def decide(self, votes: Votes) -> bool | None:
        """Known or not, from all samples.

        Raises:
            ConfigurationError: The set was stopped early.
        """
        return reaches(self.measure(votes), self.threshold)

    def wave(self, votes: Votes) -> int:
        """All that are left."""
        return votes.left

    def require_all(self, votes: Votes) -> None:
        """Refuse a set that was stopped early.

        Raises:
            ConfigurationError: It was.
        """
        if votes.left:
            raise ConfigurationError(
                f"the gate '{self.name}' needs all {votes.tries} draws; this set was stopped after {votes.drawn}"
            )


def asks(gate: Any) -> Asks:
    """What a gate, or a class of gates, wants beyond the texts of the samples; None for most.

    Raises:
        ConfigurationError: It wants what is neither a question to the LM nor probabilities.
    """
    wanted: Any = getattr(gate, "asks", None)
    if wanted in (None, "probabilities", IF_ANY) or (isinstance(wanted, type) and issubclass(wanted, GateQuestion)):
        return wanted  # type: ignore[no-any-return]
    raise ConfigurationError(f"a gate asks 'probabilities' or a GateQuestion class, not {wanted!r:.80}")


def question_of(gate: Any) -> type[GateQuestion] | None:
    """What a gate, or a class of gates, asks the LM in a call of its own; None for most."""
    wanted = asks(gate)
    return wanted if isinstance(wanted, type) else None
