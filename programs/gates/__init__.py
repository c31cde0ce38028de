"""Gates: from the clustered samples of a quiz to the verdict whether the language model knows its answer.

KEQA's own is `VoteGate`. `keqa.programs.gates.registry` lists all of them, and docs/extending.md shows how to add one.
"""

from keqa.programs.gates.base import IF_ANY, AllSamplesGate, GateNote, LeaderGate, NamedGate, asks, question_of
from keqa.programs.gates.boundary import BoundaryGate
from keqa.programs.gates.bounds import AlwaysRetrieveGate, Golds, NeverRetrieveGate, OracleGate
from keqa.programs.gates.consistency import VoteGate
from keqa.programs.gates.random import RandomGate
from keqa.programs.gates.uncertainty import (
    CertaintyGate,
    ConfidenceGate,
    LexicalSimilarityGate,
    ProbabilityGate,
    PromptGate,
)
from keqa.programs.gates.votes import Gate, Votes, as_fraction, leader, leader_is_fixed, reaches, smallest_wave

__all__ = [
    "IF_ANY",
    "AllSamplesGate",
    "AlwaysRetrieveGate",
    "BoundaryGate",
    "CertaintyGate",
    "ConfidenceGate",
    "Gate",
    "GateNote",
    "Golds",
    "LeaderGate",
    "LexicalSimilarityGate",
    "NamedGate",
    "NeverRetrieveGate",
    "OracleGate",
    "ProbabilityGate",
    "PromptGate",
    "RandomGate",
    "VoteGate",
    "Votes",
    "as_fraction",
    "asks",
    "leader",
    "leader_is_fixed",
    "question_of",
    "reaches",
    "smallest_wave",
]
