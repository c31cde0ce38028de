"""Gates: from the clustered samples of a quiz to the verdict whether the language model knows its answer.

KEQA's own is `VoteGate`. A new one is a class in a file of this folder, and a line here, which methods, options,
tables, settings and saved programs read; `keqa.programs.registry.register_gate` adds gates of other packages while a
process runs. docs/extending.md shows how.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from keqa.errors import ConfigurationError
from keqa.programs.gate import (
    AllSamplesGate,
    Draw,
    Draws,
    Gate,
    GateQuestion,
    LeaderGate,
    NamedGate,
    Verdict,
    VoteGate,
    question_of,
    reaches,
)
from keqa.programs.gates.boundary import BoundaryGate
from keqa.programs.gates.bounds import AlwaysRetrieveGate, Golds, NeverRetrieveGate, OracleGate, RandomGate
from keqa.programs.gates.uncertainty import (
    CertaintyGate,
    ConfidenceGate,
    LexicalSimilarityGate,
    ProbabilityGate,
    PromptGate,
)

__all__ = [
    "GATES",
    "AllSamplesGate",
    "AlwaysRetrieveGate",
    "BoundaryGate",
    "CertaintyGate",
    "ConfidenceGate",
    "Draw",
    "Draws",
    "Gate",
    "GateQuestion",
    "Golds",
    "LeaderGate",
    "LexicalSimilarityGate",
    "NamedGate",
    "NeverRetrieveGate",
    "OracleGate",
    "ProbabilityGate",
    "PromptGate",
    "RandomGate",
    "Verdict",
    "VoteGate",
    "check_gate",
    "questions",
    "reaches",
    "saved_gate",
]

# In the order in which methods are listed.
_ALL: tuple[type[Any], ...] = (
    VoteGate,
    AlwaysRetrieveGate,
    NeverRetrieveGate,
    RandomGate,
    OracleGate,
    CertaintyGate,
    LexicalSimilarityGate,
    ConfidenceGate,
    PromptGate,
    ProbabilityGate,
    BoundaryGate,
)

GATES: dict[str, type[Any]] = {gate.__name__: gate for gate in _ALL}
"""Every gate class, a `NamedGate` that is a `Gate`, by the name that saved programs and run files have for it."""


def questions() -> Iterator[type[GateQuestion]]:
    for gate in GATES.values():
        if (question := question_of(gate)) is not None:
            yield question


def saved_gate(name: Any) -> type[Any] | None:
    """The gate class that a saved program means by a name; None where there is none, or it cannot be saved."""
    found = GATES.get(name) if isinstance(name, str) else None
    return found if found is not None and found.savable else None


def check_gate(gate: type[Any]) -> None:
    """Refuse a class that cannot be listed beside the others: it lacks something, or another has its name."""
    if not isinstance(gate, type):
        raise ConfigurationError(f"a gate is registered as a class, not {gate!r:.80}")
    name = gate.__name__
    if not issubclass(gate, NamedGate) or not hasattr(gate, "kind") or (gate.method is not None and not gate.title):
        raise ConfigurationError(f"{name} has to be a NamedGate with a kind and, as a method, with a title")
    if not callable(getattr(gate, "decide", None)):
        raise ConfigurationError(f"{name} has no method decide; see keqa.programs.gates.Gate")
    if missing := [one for one in ("name", "threshold") if not _has(gate, one)]:
        raise ConfigurationError(
            f"{name} has no {' and no '.join(missing)}: a gate has a name, for records, and a threshold, which is None "
            "where it has none"
        )
    if gate.savable and not is_dataclass(gate):
        raise ConfigurationError(f"{name} has to be a dataclass, or say savable = False: its fields are what is saved")
    if (there := GATES.get(name)) is not None and _home(there) != _home(gate):
        raise ConfigurationError(f"there is a gate {name} already, in {there.__module__}")
    question = question_of(gate)
    for other in questions():
        if question is not None and other.attribute == question.attribute and _home(other) != _home(question):
            raise ConfigurationError(f"the attribute {other.attribute!r} of {question.__name__} is {other.__name__}'s")


def _has(gate: type[Any], name: str) -> bool:
    """Whether each gate of a class has an attribute; an `__init__` that the class writes itself may set any."""
    if hasattr(gate, name) or not (is_dataclass(gate) or gate.__init__ is object.__init__):
        return True
    return is_dataclass(gate) and name in {one.name for one in fields(gate)}


def _home(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__
