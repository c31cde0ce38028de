"""A program's answers to training questions, each kept on disk as soon as it is there.

The record of a question tells every call that was made for it, so it is the trace from which demonstrations and
feedback are taken. It is kept under what the program was at that moment and what was asked: the same program is never
asked the same question twice, a program with other demonstrations is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from keqa.data.example import Answered
from keqa.metrics.utility import Correctness
from keqa.optimize.journal import Journal
from keqa.programs.batch import answer_many
from keqa.programs.failures import may_pass
from keqa.programs.keqa import KEQA
from keqa.programs.program import UnansweredError
from keqa.programs.records import AnswerType, QuestionRecord
from keqa.programs.settings import settings_of
from keqa.programs.stage import RoleLMs
from keqa.programs.utility_reference import UtilityReference, leaving_out

__all__ = ["Progress", "Trace", "digest", "identity", "key_of", "lms_of", "mean", "run_traces", "silent"]

Progress = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and how much there is."""

_Asked = tuple[str, tuple[str, ...]]


def silent(step: str, done: int, total: int) -> None:
    """Progress that nobody follows."""


@dataclass(frozen=True)
class Trace:
    """One question and what a program made of it.

    Attributes:
        example: The question with its gold answers.
        record: The story; None where it could not be asked at all.
        error: Why there is no answer, where there is none.
        score: Correctness of the answer; 0 without one.
    """

    example: Answered
    record: QuestionRecord | None
    error: str | None
    score: float

    @property
    def retrievals(self) -> int:
        """Searches made for it."""
        return self.record.cost.retrievals if self.record is not None else 0


def run_traces(
    program: KEQA,
    examples: Sequence[Answered],
    *,
    journal: Journal,
    metric: Correctness,
    in_flight: int = 8,
    step: str = "asking",
    progress: Progress = silent,
) -> list[Trace]:
    """Ask every question, except those that this very program was asked before.

    Nothing of the utility reference that came from a question is shown while that question is asked.

    Args:
        program: Whom to ask.
        examples: Questions, no two alike.
        journal: Where answers are kept.
        metric: Correctness of an answer against gold answers.
        in_flight: Questions in work at once.
        step: The name under which progress is told.
        progress: See `Progress`.

    Returns:
        One trace for each example, in their order.

    Raises:
        ConfigurationError: A key, model or setting is wrong. What was answered before it is kept.
    """
    state = identity(program)
    keys = [key_of(state, example) for example in examples]
    missing = [position for position, key in enumerate(keys) if journal.get(key) is None]
    asking = _Asking(program, journal, {_asked(examples[p]): (examples[p].id, keys[p]) for p in missing})
    lost: dict[int, str] = {}
    done = len(examples) - len(missing)
    progress(step, done, len(examples))
    for outcome in answer_many(asking, [examples[p] for p in missing], in_flight):
        if outcome.error is not None:
            lost[missing[outcome.position]] = str(outcome.error)
        done += 1
        progress(step, done, len(examples))
    found = [journal.get(key) or {"error": lost.get(p, "not asked")} for p, key in enumerate(keys)]
    return [_trace(example, value, metric) for example, value in zip(examples, found, strict=True)]


def mean(traces: Sequence[Trace]) -> float:
    """The mean score."""
    return sum(trace.score for trace in traces) / len(traces)


def identity(program: KEQA) -> str:
    """What a program is, apart from its language models and retriever: settings, instructions, demonstrations."""
    settings = settings_of(program)
    del settings["workers"]
    described: dict[str, Any] = {"settings": settings, "gate": repr(program.examination.gate)}
    for name, part in program.named_parameters():
        if isinstance(part, dspy.Predict):
            described[name] = [part.signature.instructions, [dict(demo) for demo in part.demos]]
        elif isinstance(part, UtilityReference):
            described[name] = [part.settings(), _entries(part)]
    return digest(described)


_last_entries: list[tuple[Any, str]] = []


def _entries(reference: UtilityReference) -> str:
    """The signature of the entries; that of a large reference is not made anew for every question."""
    for entries, signature in _last_entries:
        if entries is reference.entries:
            return signature
    _last_entries[:] = [(reference.entries, reference.signature_of_entries())]
    return _last_entries[0][1]


def digest(described: Any) -> str:
    """A short name for what is described as JSON."""
    text = json.dumps(described, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=10).hexdigest()


def key_of(state: str, example: Answered) -> str:
    """The key of a question asked of a program."""
    return f"{state}:{digest([example.question, example.answer_type, list(example.choices)])}"


def lms_of(program: KEQA) -> RoleLMs | None:
    """The language models that a program is bound to by role; None where ``dspy.settings.lm`` answers."""
    return program._lms.value


class _Asking:
    """Asks the program and keeps the answer, in the thread of the question, so that nothing finished is lost."""

    def __init__(self, program: KEQA, journal: Journal, known: Mapping[_Asked, tuple[str, str]]) -> None:
        self.program, self.journal, self.known = program, journal, known

    def __call__(self, question: str, answer_type: AnswerType, choices: Sequence[str]) -> dspy.Prediction:
        identifier, key = self.known[question, tuple(choices)]
        try:
            with leaving_out(identifier), dspy.context(trace=None):
                prediction: dspy.Prediction = self.program(question=question, answer_type=answer_type, choices=choices)
        except UnansweredError as error:
            if error.record is not None and not may_pass(error.cause):
                self.journal.put(key, {"record": error.record.model_dump(mode="json"), "error": str(error)})
            raise
        self.journal.put(key, {"record": prediction.record.model_dump(mode="json")})
        return prediction


def _asked(example: Answered) -> _Asked:
    return example.question, tuple(example.choices)


def _trace(example: Answered, value: Mapping[str, Any], metric: Correctness) -> Trace:
    stored = value.get("record")
    record = None if stored is None else QuestionRecord.model_validate(stored)
    answer = None if record is None else record.answer
    score = metric(answer, example.answers, example.answer_type, example.choices) if answer else 0.0
    return Trace(example, record, value.get("error"), score)
