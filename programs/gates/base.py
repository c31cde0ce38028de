"""What a gate class says of itself: lists of methods, tables, options and saved programs read it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from keqa.errors import ConfigurationError
from keqa.programs.stages.gate_question import GateQuestion

__all__ = ["Asks", "NamedGate", "Needs", "asks", "question_of"]

Asks: TypeAlias = type[GateQuestion] | Literal["probabilities"] | None
"""What a gate wants beyond the samples' texts: a question to the LM, the samples' token probabilities, or nothing."""

Needs: TypeAlias = Literal["golds", "run"]
"""What a gate decides by that no sample holds: the gold answers of quizzes, or how often another run searched."""


class NamedGate:
    """A gate that has a name in comparisons, tables and saved programs; see `keqa.programs.registry.register_gate`.

    Attributes:
        method: The method's name, such as ``gate-votes``; None where the gate is no method by itself.
        title: What tables call the method.
        kind: What figures and tables call this kind of gate, its form and threshold left out.
        asks: What it wants beyond the samples' texts.
        needs: What it needs beyond samples and arguments: ``golds`` are given to it as `golds`; ``run`` makes it match
            another run where it has no threshold of its own.
        savable: Whether a saved program may hold it: all it is must be in its arguments.
    """

    method: ClassVar[str | None] = None
    title: ClassVar[str] = ""
    kind: ClassVar[str]
    asks: ClassVar[Asks] = None
    needs: ClassVar[Needs | None] = None
    savable: ClassVar[bool] = True


def asks(gate: Any) -> Asks:
    """What a gate, or a class of gates, wants beyond the texts of the samples; None for most.

    Raises:
        ConfigurationError: It wants what is neither a question to the LM nor probabilities.
    """
    wanted: Any = getattr(gate, "asks", None)
    if wanted is None or wanted == "probabilities" or (isinstance(wanted, type) and issubclass(wanted, GateQuestion)):
        return wanted  # type: ignore[no-any-return]
    raise ConfigurationError(f"a gate asks 'probabilities' or a GateQuestion class, not {wanted!r:.80}")


def question_of(gate: Any) -> type[GateQuestion] | None:
    """What a gate, or a class of gates, asks the LM in a call of its own; None for most."""
    wanted = asks(gate)
    return wanted if isinstance(wanted, type) else None
