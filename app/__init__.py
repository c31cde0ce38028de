"""KEQA: question answering that knows what its language model does not know.

Everything a user needs is here, loaded when it is first used, so that ``import keqa`` is quick and touches no network::

    import keqa

    program = keqa.KEQA(keqa.open_index("index"), lms=keqa.build_roles("openai/gpt-4o-mini"))
    prediction = program("Were Scott Derrickson and Ed Wood of the same nationality?", answer_type="yes/no")
"""

from importlib import import_module
from typing import TYPE_CHECKING

from keqa.errors import (
    ConfigurationError,
    InputError,
    KeqaError,
    MissingExtraError,
    NotInDocumentsError,
    RetrievalError,
    StageError,
    TooManyFailuresError,
)

if TYPE_CHECKING:
    from keqa.evaluation.evaluate import evaluate
    from keqa.evaluation.risk import hold_risk
    from keqa.lms import Roles, build_lm, build_roles
    from keqa.optimize.compile import compile_program as compile
    from keqa.optimize.scoring import optimizer_metric
    from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
    from keqa.programs.calls.batch import Outcome
    from keqa.programs.calls.errors import UnansweredError
    from keqa.programs.keqa import KEQA
    from keqa.programs.prediction import (
        Answered,
        AnswerPart,
        AnswerPrediction,
        ItemsListed,
        PassagesKept,
        Progress,
        QuizAnswered,
        QuizExamined,
        QuizFound,
        Rewritten,
        Searching,
    )
    from keqa.programs.records import QuestionRecord, Unanswered
    from keqa.programs.saving import load, save
    from keqa.retrievers import (
        Hit,
        Passage,
        Place,
        Retriever,
        add_files,
        as_retriever,
        build_dense,
        build_index,
        open_index,
        read_corpus,
        remove_files,
        sync_folder,
    )
    from keqa.testbed.index import open_encyclopedia
    from keqa.testbed.testbed import Testbed

__all__ = [
    "KEQA",
    "AlwaysRetrieve",
    "AnswerPart",
    "AnswerPrediction",
    "Answered",
    "ClosedBook",
    "ConfigurationError",
    "Hit",
    "InputError",
    "ItemsListed",
    "KeqaError",
    "MissingExtraError",
    "NotInDocumentsError",
    "Outcome",
    "Passage",
    "PassagesKept",
    "Place",
    "Progress",
    "QuestionRecord",
    "QuizAnswered",
    "QuizExamined",
    "QuizFound",
    "RetrievalError",
    "Retriever",
    "Rewritten",
    "Roles",
    "Searching",
    "StageError",
    "Testbed",
    "TooManyFailuresError",
    "Unanswered",
    "UnansweredError",
    "__version__",
    "add_files",
    "as_retriever",
    "build_dense",
    "build_index",
    "build_lm",
    "build_roles",
    "compile",
    "evaluate",
    "hold_risk",
    "load",
    "open_encyclopedia",
    "open_index",
    "optimizer_metric",
    "read_corpus",
    "remove_files",
    "save",
    "sync_folder",
]

_HOMES = {
    name: room
    for room, names in {
        "keqa.evaluation.evaluate": "evaluate",
        "keqa.evaluation.risk": "hold_risk",
        "keqa.lms": "Roles build_lm build_roles",
        "keqa.optimize.compile": "compile",
        "keqa.optimize.scoring": "optimizer_metric",
        "keqa.programs.baselines": "AlwaysRetrieve ClosedBook",
        "keqa.programs.calls.batch": "Outcome",
        "keqa.programs.calls.errors": "UnansweredError",
        "keqa.programs.keqa": "KEQA",
        "keqa.programs.records": "QuestionRecord Unanswered",
        "keqa.programs.prediction": "Answered AnswerPart AnswerPrediction ItemsListed PassagesKept Progress "
        "QuizAnswered QuizExamined QuizFound Rewritten Searching",
        "keqa.programs.saving": "load save",
        "keqa.retrievers": "Hit Passage Place Retriever add_files as_retriever build_dense build_index open_index "
        "read_corpus remove_files sync_folder",
        "keqa.testbed.index": "open_encyclopedia",
        "keqa.testbed.testbed": "Testbed",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> object:
    """Load a public name from the room it lives in."""
    if name == "__version__":
        from importlib.metadata import version

        return version("keqa")
    if name not in _HOMES:
        raise AttributeError(f"module 'keqa' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
