"""Asking the questions of a compilation: each is scored, and kept on disk as soon as it is answered.

What is kept of a question holds every call that was made for it, so it is the trace from which demonstrations and
feedback are taken. It is kept under what the program was at that moment and what was asked: the same program is never
asked the same question twice, a program with other demonstrations is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import dspy

from keqa.data.example import Answered
from keqa.data.question import question_digest
from keqa.metrics.utility import Correctness
from keqa.optimize.failures import Failures, passing_cause
from keqa.optimize.scoring import score_of
from keqa.programs.calls.batch import Outcome, ask, in_parallel
from keqa.programs.fingerprint import digest, program_fingerprint
from keqa.programs.learned import NOTHING, LearnedQuestions, demonstration_digest
from keqa.programs.prediction import prediction_of
from keqa.programs.program import Program
from keqa.programs.records import QuestionRecord, Record, record_without_secrets
from keqa.storage.journal import Journal
from keqa.storage.redaction import without_secrets

P = TypeVar("P", bound=Program)

Progress = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and how much there is."""

Step = tuple[str, dict[str, Any], dict[str, Any]]
"""A call: the name of the predictor in the program, its inputs and its outputs."""


def silent(step: str, done: int, total: int) -> None:
    """Progress that nobody follows."""


class Kept(Record):
    """What a journal keeps of a question."""

    record: QuestionRecord | None = None
    error: str | None = None
    steps: list[Step] | None = None


@dataclass(frozen=True)
class Task:
    """A question to be asked."""

    example: Answered
    program: Program
    key: str


@dataclass(frozen=True)
class Trace:
    """One question and what a program made of it."""

    example: Answered
    record: QuestionRecord | None
    error: str | None
    score: float
    steps: tuple[Step, ...] = ()

    @property
    def retrievals(self) -> int:
        """Searches made for it."""
        return self.record.cost.retrievals if self.record is not None else 0


@dataclass(frozen=True)
class Trial:
    """One candidate program and its score on the validation split."""

    name: str
    score: float
    scores: tuple[float, ...] = ()


class Origins:
    """By digests, which training questions possible demonstrations come from: none is shown its own.

    Where there are too few questions to hold some out, the same ones are learned from and chosen by.
    """

    def __init__(self) -> None:
        self._roots: dict[str, dict[str, None]] = {}

    def add(self, signature: Any, demo: Mapping[str, Any], example: Answered) -> None:
        """Note where a demonstration comes from."""
        roots = self._roots.setdefault(demonstration_digest(demo, signature), {})
        roots[question_digest(example.question, example.choices)] = None

    def known_to(self, program: Program) -> LearnedQuestions:
        """What a program has learned from, with the origins of the demonstrations that it has."""
        found: dict[str, list[str]] = {}
        examples = dict(program.learned.train)
        for predictor in program.predictors():
            for demo in predictor.demos:
                name = demonstration_digest(demo, predictor.signature)
                # DSPy's optimizers take whole training examples, too.
                roots = [
                    *self._roots.get(name, ()),
                    *([examples[demo["root"]]] if demo.get("root") in examples else []),
                ]
                found |= {name: roots} if roots else {}
        return program.learned.and_from((), (), found)


def without_own(program: P, example: Answered) -> P:
    """The program itself, or a copy without the demonstrations that come from a question."""
    learned, asked = program.learned, (example.question, example.choices)
    return without_demos(program, lambda *shown: learned.hides(*asked, *shown)) if learned.demonstrations else program


def without_demos(program: P, excluded: Callable[[Any, Any], bool]) -> P:
    """The program itself, or a copy without some of its demonstrations, each told by itself and its signature."""
    if not any(excluded(demo, predictor.signature) for predictor in program.predictors() for demo in predictor.demos):
        return program
    twin: P = program.deepcopy()
    for predictor in twin.predictors():
        predictor.demos = [demo for demo in predictor.demos if not excluded(demo, predictor.signature)]
    return twin


def state_of(program: Program) -> str:
    """The name of what a program shows and how it works; what it learned from is in what it shows."""
    bare = copy.copy(program)
    bare.learned = NOTHING
    return program_fingerprint(bare)


@dataclass(frozen=True)
class Asking:
    """How the steps of a compilation ask: all that they have in common."""

    journal: Journal
    metric: Correctness
    in_flight: int = 8
    progress: Progress = silent
    failures: Failures = field(default_factory=Failures)
    origins: Origins = field(default_factory=Origins)

    def score(self, example: Answered, record: QuestionRecord | None) -> float:
        """How correct an answer is; 0 where there is none."""
        return 0.0 if record is None else score_of(self.metric, example, prediction_of(record))

    def tasks(self, program: Program, examples: Iterable[Answered], drawn: str = "") -> list[Task]:
        """What is to be asked of a program."""
        state, found = state_of(program), []
        for one in examples:
            whom = without_own(program, one)
            asked = digest([one.question, one.answer_type, list(one.choices)])
            key = f"{state if whom is program else state_of(whom)}:{asked}"
            found.append(Task(one, whom, f"{key}:{drawn}" if drawn else key))
        return found

    def kept(self, task: Task, *, steps: bool) -> Kept | None:
        """What was kept of a question, its calls with it where they are wanted."""
        kept = self.journal.get_as(task.key, Kept.model_validate)
        return kept if kept is not None and (kept.steps is not None or not steps) else None

    def ask(self, task: Task, *, steps: bool) -> tuple[Outcome, list[Step] | None]:
        """Ask a question; see `keqa.programs.calls.batch.ask`."""
        with dspy.context(trace=[] if steps else None):
            outcome = ask(task.program, 0, task.example)
            return outcome, _steps(task.program) if steps else None

    def keep(self, task: Task, outcome: Outcome, steps: list[Step] | None) -> Kept:
        """Keep how a question ended, unless another attempt may fare better."""
        record, error, lms = outcome.record, outcome.error, task.program.lms_asked()
        kept = Kept(
            record=None if record is None else record_without_secrets(record, lms),
            error=None if error is None else without_secrets(str(error), lms),
            steps=steps,
        )
        if passing_cause(record, error) is None:
            absent = {name for name in ("error", "steps") if getattr(kept, name) is None}
            self.journal.put(task.key, kept.model_dump(mode="json", exclude=absent))
            return kept
        return kept if error is None else kept.model_copy(update={"record": None})

    def traces(
        self, program: Program, examples: Sequence[Answered], step: str = "asking", *, steps: bool = False
    ) -> list[Trace]:
        """Ask every question, except those that this very program was asked before."""
        tasks = self.tasks(program, examples)
        found = {task.key: kept for task in tasks if (kept := self.kept(task, steps=steps)) is not None}
        missing = [task for task in tasks if task.key not in found]
        watch = self.failures.watch(step, len(tasks), len(missing))
        for kept in found.values():
            failure = None if kept.record is None else kept.record.failure
            cause = "InputError" if failure is None else failure.cause
            watch.count(None if kept.error is None else cause, earlier=True)
        self.progress(step, len(found), len(tasks))
        asked = in_parallel(lambda task: (task, *self.ask(task, steps=steps)), watch.until(missing), self.in_flight)
        for task, outcome, made in asked:
            found[task.key] = self.keep(task, outcome, made)
            watch.add(outcome.record, outcome.error)
            self.progress(step, len(found), len(tasks))
        watch.refuse()
        return [self._trace(task.example, found[task.key]) for task in tasks]

    def trial(self, program: Program, name: str, examples: Sequence[Answered], *, steps: bool = False) -> Trial:
        """Score a candidate."""
        scores = tuple(trace.score for trace in self.traces(program, examples, f"scoring {name}", steps=steps))
        return Trial(name, sum(scores) / len(scores), scores)

    def _trace(self, example: Answered, kept: Kept) -> Trace:
        return Trace(example, kept.record, kept.error, self.score(example, kept.record), tuple(kept.steps or ()))


def _steps(program: Program) -> list[Step]:
    """The calls that were made in the current trace."""
    names = {id(predictor): name for name, predictor in program.named_predictors()}
    made = [step for step in dspy.settings.trace or [] if id(step[0]) in names]
    found: list[Step] = [(names[id(p)], _plain(i), _plain(_said(p, o))) for p, i, o in made]
    # Calls run side by side; sorted, the trace is the same in every run.
    found.sort(key=digest)
    return found


def _said(predictor: dspy.Predict, outputs: Any) -> Mapping[str, Any]:
    """What the language model said, without what a call may bring along beside it, such as token probabilities."""
    return {name: value for name, value in dict(outputs).items() if name in predictor.signature.fields}


def _plain(fields: Any) -> dict[str, Any]:
    """Fields of a call as JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in dict(fields).items()}
