"""The composed program, its stages, and the methods it is compared with."""

from keqa.programs.calls.batch import Outcome
from keqa.programs.gates import AlwaysRetrieveGate, CertaintyGate, Gate, NeverRetrieveGate, VoteGate, Votes
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program, UnansweredError
from keqa.programs.records import QuestionRecord, QuizRecord

__all__ = [
    "KEQA",
    "AlwaysRetrieveGate",
    "CertaintyGate",
    "Gate",
    "NeverRetrieveGate",
    "Outcome",
    "Program",
    "QuestionRecord",
    "QuizRecord",
    "UnansweredError",
    "VoteGate",
    "Votes",
]
