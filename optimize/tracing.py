"""A program's answers to training questions, each kept on disk as soon as it is there.

The record of a question holds every call that was made for it, so it is the trace from which demonstrations and
feedback are taken. It is kept under what the program was at that moment and what was asked: the same program is never
asked the same question twice, a program with other demonstrations is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from keqa.data.example import Answered
from keqa.data.question import AnswerType
from keqa.metrics.utility import Correctness
from keqa.optimize.asking import AskResult, Step, ask
from keqa.optimize.demos.provenance import DemoProvenance
from keqa.optimize.failures import Failures
from keqa.optimize.journal_keys import question_key
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord
from keqa.programs.runtime.batch import answer_many
from keqa.storage.journal import Journal

__all__ = ["Progress", "Trace", "asked_as", "run_traces", "silent"]

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
        steps: The calls that were made, where they were noted.
    """

    example: Answered
    record: QuestionRecord | None
    error: str | None
    score: float
    steps: tuple[Step, ...] = ()

    @property
    def retrievals(self) -> int:
        """Searches made for it."""
        return self.record.cost.retrievals if self.record is not None else 0


def run_traces(
    program: Program,
    examples: Sequence[Answered],
    *,
    journal: Journal,
    metric: Correctness,
    in_flight: int = 8,
    step: str = "asking",
    progress: Progress = silent,
    failures: Failures | None = None,
    origins: DemoProvenance | None = None,
    steps: bool = False,
) -> list[Trace]:
    """Ask every question, except those that this very program was asked before.

    Nothing of the utility reference that came from a question is shown while that question is asked.

    Args:
        program: Whom to ask.
        examples: Questions, no two alike.
        journal: Where answers are kept.
        metric: Correctness of an answer against gold answers.
        in_flight: Questions in work at once.
        step: The name under which progress is reported.
        progress: See `Progress`.
        failures: Where failed questions are counted.
        origins: Demonstrations that come from a question are not shown while that question is asked.
        steps: Whether the calls are noted as well, for `keqa.optimize.dspy_bridge.student.Student` and
            `keqa.optimize.demos.from_traces`.

    Returns:
        One trace for each example, in their order.

    Raises:
        ConfigurationError: A key, model or setting is wrong. What was answered before it is kept.
        TooManyFailuresError: Most questions failed for a reason that may pass; likewise.
    """
    asking = _Asking(program, journal, origins or DemoProvenance(), steps=steps)
    keys = [asking.expect(example) for example in examples]
    missing = [position for position, key in enumerate(keys) if not asking.knows(key)]
    watch = (failures or Failures()).watch(step, len(examples), len(missing))
    lost: dict[int, Mapping[str, Any]] = {}
    done = len(examples) - len(missing)
    progress(step, done, len(examples))
    for outcome in answer_many(asking, [examples[p] for p in missing], in_flight):
        position = missing[outcome.position]
        error = None if outcome.error is None else str(outcome.error)
        record = None if error is not None or outcome.record is None else outcome.record.model_dump(mode="json")
        lost[position] = {"record": record, "error": error}
        watch.add(outcome.record, outcome.error)
        done += 1
        progress(step, done, len(examples))
    found = [journal.get(key) or lost[position] for position, key in enumerate(keys)]
    traces = [_trace(example, value, metric) for example, value in zip(examples, found, strict=True)]
    for trace in (trace for position, trace in enumerate(traces) if position not in lost):
        failure = None if trace.record is None else trace.record.failure
        watch.kept(failed=trace.error is not None, cause="InputError" if failure is None else failure.cause)
    return traces


def asked_as(example: Answered) -> _Asked:
    """What distinguishes a question from others when it comes back from `keqa.programs.runtime.batch.answer_many`."""
    return example.question, tuple(example.choices)


class _Asking:
    """Asks the program and keeps the answer, in the thread of the question, so that nothing finished is lost."""

    def __init__(self, program: Program, journal: Journal, origins: DemoProvenance, *, steps: bool) -> None:
        self.program, self.journal, self.origins, self.steps = program, journal, origins, steps
        self.state = program_fingerprint(program)
        self.known: dict[_Asked, tuple[Program, str, str]] = {}

    def expect(self, example: Answered) -> str:
        """Make ready for a question, and return its key."""
        whom = self.origins.without(self.program, example.id)
        state = self.state if whom is self.program else program_fingerprint(whom)
        key = question_key(state, example.question, example.answer_type, example.choices)
        self.known[asked_as(example)] = (whom, example.id, key)
        return key

    def knows(self, key: str) -> bool:
        """Whether a question was asked before, its calls noted where they are wanted."""
        kept = self.journal.get(key)
        return kept is not None and ("steps" in kept or not self.steps)

    def __call__(self, question: str, answer_type: AnswerType, choices: Sequence[str]) -> dspy.Prediction:
        whom, root, key = self.known[question, tuple(choices)]
        asked: AskResult = ask(whom, root, question, answer_type, choices, steps=self.steps)
        if asked.lasting:
            self.journal.put(key, asked.value)
        if asked.error is not None:
            raise asked.error
        return dspy.Prediction(record=asked.record)


def _trace(example: Answered, value: Mapping[str, Any], metric: Correctness) -> Trace:
    stored = value.get("record")
    record = None if stored is None else QuestionRecord.model_validate(stored)
    answer = None if record is None else record.answer
    score = metric(answer, example.answers, example.answer_type, example.choices) if answer else 0.0
    steps = tuple((name, inputs, outputs) for name, inputs, outputs in value.get("steps") or ())
    return Trace(example, record, value.get("error"), score, steps)
