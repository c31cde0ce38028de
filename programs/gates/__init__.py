"""Gates: from the clustered samples of a quiz to the verdict whether the language model knows its answer.

KEQA's own is `VoteGate`. `keqa.programs.gates.registry` lists all of them, and docs/extending.md shows how to add one.
"""

from keqa.programs.gate import (
    IF_ANY,
    AllSamplesGate,
    Draw,
    Draws,
    Gate,
    GateQuestion,
    LeaderGate,
    NamedGate,
    Verdict,
    VoteGate,
    as_fraction,
    asks,
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
    "IF_ANY",
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
    "as_fraction",
    "asks",
    "question_of",
    "reaches",
]
