"""One question asked of a program, as a journal keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from keqa.data.question import AnswerType
from keqa.errors import ConfigurationError, InputError
from keqa.optimize.failures import passing_cause
from keqa.optimize.journal_keys import lms_asked
from keqa.programs.fingerprint import digest
from keqa.programs.program import Program, UnansweredError
from keqa.programs.record_redaction import record_without_secrets
from keqa.programs.records import QuestionRecord
from keqa.programs.reference.utility_reference import leaving_out
from keqa.storage.redaction import without_secrets

__all__ = ["AskResult", "Step", "ask"]

Step = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A call: the name of the predictor in the program, its inputs and its outputs."""


@dataclass(frozen=True)
class AskResult:
    """How asking a question ended.

    Attributes:
        record: Its story; None where it could not be asked.
        error: Why there is no answer.
        steps: The calls that were made; None where they were not noted.
        lms: Language models whose keys and servers must not be written.
    """

    record: QuestionRecord | None
    error: UnansweredError | InputError | None = None
    steps: list[Step] | None = None
    lms: tuple[Any, ...] = ()

    @property
    def lasting(self) -> bool:
        """Whether the same would come of it another time; otherwise the question is not finished."""
        return passing_cause(self.record, self.error) is None

    @property
    def value(self) -> dict[str, Any]:
        """As JSON, as it may be written."""
        record = None if self.record is None else record_without_secrets(self.record, self.lms)
        found: dict[str, Any] = {"record": None if record is None else record.model_dump(mode="json")}
        if self.error is not None:
            found["error"] = without_secrets(str(self.error), self.lms)
        if self.steps is not None:
            found["steps"] = self.steps
        return found


def ask(
    program: Program, root: str, question: str, answer_type: AnswerType, choices: Sequence[str], *, steps: bool
) -> AskResult:
    """Ask a question, without what the utility reference holds of it.

    Args:
        program: Whom to ask.
        root: Id of the question.
        question: Its text.
        answer_type: What kind of answer it wants.
        choices: The options of a choice.
        steps: Whether to note the calls.

    Raises:
        ConfigurationError: A key, model or setting is wrong.
    """
    record: QuestionRecord | None
    failure: UnansweredError | InputError | None = None
    with leaving_out(root), dspy.context(trace=[] if steps else None):
        try:
            record = program(question=question, answer_type=answer_type, choices=choices).record
        except ConfigurationError:
            raise
        except UnansweredError as error:
            record, failure = error.record, error
        except InputError as error:
            record, failure = None, error
        return AskResult(record, failure, _steps(program) if steps else None, tuple(lms_asked(program)))


def _steps(program: Program) -> list[Step]:
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    made = [step for step in dspy.settings.trace or [] if id(step[0]) in names]
    found: list[Step] = [(names[id(p)], _plain(i), _plain(_said(p, o))) for p, i, o in made]
    # Calls run side by side; sorted, the trace is the same in every run.
    found.sort(key=digest)
    return found


def _said(predictor: dspy.Predict, outputs: Any) -> dict[str, Any]:
    """What the language model said, without what a call may bring along beside it, such as token probabilities."""
    return {name: value for name, value in dict(outputs).items() if name in predictor.signature.fields}


def _plain(fields: Any) -> dict[str, Any]:
    """Fields of a call as JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in dict(fields).items()}
