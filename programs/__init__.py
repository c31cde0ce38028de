"""The composed program, its stages, and the methods it is compared with; each is loaded when it is named."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keqa.programs.calls.batch import Outcome
    from keqa.programs.calls.errors import UnansweredError
    from keqa.programs.gates import AlwaysRetrieveGate, CertaintyGate, Draws, Gate, NeverRetrieveGate, Verdict, VoteGate
    from keqa.programs.keqa import KEQA
    from keqa.programs.program import Program
    from keqa.programs.records import QuestionRecord, QuizRecord

__all__ = [
    "KEQA",
    "AlwaysRetrieveGate",
    "CertaintyGate",
    "Draws",
    "Gate",
    "NeverRetrieveGate",
    "Outcome",
    "Program",
    "QuestionRecord",
    "QuizRecord",
    "UnansweredError",
    "Verdict",
    "VoteGate",
]

_HOMES = {"KEQA": "keqa", "Outcome": "calls.batch", "Program": "program", "UnansweredError": "calls.errors"}
_HOMES |= {"QuestionRecord": "records", "QuizRecord": "records"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'gates')}"), name)
