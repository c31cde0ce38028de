"""How the steps of a compilation ask: each call is made once and kept at once, so that resuming is running again.

Calls are kept by what they ask (`keqa.programs.shared_draws`), whatever cache the language model has: another run in
the same folder, and another candidate whose prompts are in part the same, read them.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, NamedTuple, Self

import dspy
from dspy.utils.usage_tracker import UsageTracker

from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.lms.factory import Roles
from keqa.metrics.utility import Correctness
from keqa.optimize.failures import Failures, passing_cause
from keqa.optimize.judged import Call, Step
from keqa.optimize.scoring import score_of
from keqa.programs.calls.batch import ask
from keqa.programs.calls.predictor import NOTHING, LearnedQuestions, demonstration_digest
from keqa.programs.calls.session import token_count, within
from keqa.programs.fingerprint import digest, program_fingerprint
from keqa.programs.prediction import prediction_of
from keqa.programs.program import Program
from keqa.programs.records import CallCost, QuestionRecord, record_without_secrets
from keqa.programs.shared_draws import SharedDraws
from keqa.programs.stage import RoleLMs
from keqa.signatures.chat_format import adapter
from keqa.storage.journal import Journal

Progress = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and how much there is."""

ROLES = ("task", "consistency", "utility")

COUNTED = {"calls", "prompt_tokens", "completion_tokens"}
"""What of a `CallCost` a compilation counts: what reached a language model, and its tokens."""
_SPENT = "spent"
_EVERY = 50
"""So many requests at most are unknown to the next run where this one is killed."""


def silent(step: str, done: int, total: int) -> None:
    """Progress that nobody follows."""


class Trace(NamedTuple):
    """One question and what a program made of it."""

    example: Example
    record: QuestionRecord | None
    score: float
    steps: tuple[Step, ...] = ()
    error: Exception | None = None


class Trial(NamedTuple):
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

    def add(self, signature: Any, demo: Mapping[str, Any], example: Example) -> None:
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
                own = [examples[demo["id"]]] if demo.get("id") in examples else []
                roots = [*self._roots.get(name, ()), *own]
                found |= {name: roots} if roots else {}
        return program.learned.and_from((), (), found)


def lms_of(program: Program) -> RoleLMs | None:
    """The language models by role that a program is bound to, or that its predictors have got since; None without."""
    bound = program.lms
    found: dict[str, Any] = {}
    for predictor in program.predictors():
        found.setdefault(getattr(predictor, "role", "task"), predictor.lm)
    if bound is None and not any(found.values()):
        return None
    named = {role: found.get(role) or getattr(bound, role, dspy.settings.lm) for role in ROLES}
    return Roles(**named, boundary=getattr(bound, "boundary", None))


def state_of(program: Program) -> str:
    """The name of what a program shows and how it works; what it learned from is in what it shows."""
    bare = copy.copy(program)
    bare.learned = NOTHING
    return program_fingerprint(bare)


class Calls(SharedDraws):
    """Calls by what is asked; those whose failure would not pass are kept as well, and not paid again."""

    keeps_failures = True


@dataclass
class Asking:
    """What the steps of a compilation have in common; its calls are kept in the journal."""

    journal: Journal
    metric: Correctness
    in_flight: int = 8
    progress: Progress = silent
    failures: Failures = field(default_factory=Failures)
    origins: Origins = field(default_factory=Origins)

    def __post_init__(self) -> None:
        self.calls = Calls(store=self.journal)

    def on(self, calls: Calls, **changes: Any) -> Self:
        """The same on other calls than its own."""
        twin = replace(self, **changes)
        twin.calls = calls
        return twin

    def score(self, example: Example, record: QuestionRecord | None) -> float:
        """How correct an answer is; 0 where there is none, and where nobody said what is right."""
        return 0.0 if record is None or not example.answers else score_of(self.metric, example, prediction_of(record))

    def ask(self, program: Program, example: Example, state: str | None = None) -> Trace:
        """Ask a question of a program, whose state may be known; what is told of a failure names no key."""
        made: list[Call] = []
        shown = f"{state or state_of(program)} {example.id}"

        async def call(predictor: dspy.Predict, **arguments: Any) -> dspy.Prediction:
            prediction = await self.calls.predict(predictor, shown=shown, **arguments)
            made.append((predictor, arguments, prediction))
            return prediction

        with within(caller=call), dspy.context(trace=None):
            outcome = ask(program, 0, example)
        record, error = outcome.record, outcome.error
        if passing_cause(record, error) is not None:
            # Another attempt may fare better; until then an answer counts as it is.
            self.calls.forget_failed()
            record = record if error is None else None
        record = None if record is None else record_without_secrets(record, program.lms_asked())
        return Trace(example, record, self.score(example, record), _steps(program, made), error)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Meanwhile calls are made and kept as those of programs are."""
        with within(caller=self.calls.predict), dspy.context(adapter=dspy.settings.adapter or adapter(), trace=None):
            yield

    def traces(
        self, program: Program, examples: Sequence[Example], step: str = "asking", state: str | None = None
    ) -> list[Trace]:
        watch, state = self.failures.watch(step, len(examples)), state or state_of(program)
        return watch.each(
            examples,
            lambda example: self.ask(program, example, state),
            lambda trace: watch.add(trace.record, trace.error),
            self.in_flight,
            self.progress,
        )

    def trial(self, program: Program, name: str, examples: Sequence[Example]) -> Trial:
        scores = tuple(trace.score for trace in self.traces(program, examples, f"scoring {name}"))
        return Trial(name, fmean(scores), scores)


def _steps(program: Program, made: Sequence[Call]) -> tuple[Step, ...]:
    """The calls of a program's own predictors, without what a reply brings along, such as token probabilities."""
    names = {id(predictor): name for name, predictor in program.named_predictors()}

    def plain(fields: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
        return {name: list(one) if isinstance(one, tuple) else one for name, one in fields.items() if name in known}

    found = [
        (names[id(one)], plain(arguments, one.signature.input_fields), plain(dict(prediction), one.signature.fields))
        for one, arguments, prediction in made
        if id(one) in names
    ]
    # Calls run side by side; sorted, the trace is the same in every run.
    return tuple(sorted(found, key=digest))


class Spending(UsageTracker):
    """Counts requests to language models in a journal while it is DSPy's usage tracker, and tells the one before."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._parent: UsageTracker | None = dspy.settings.usage_tracker
        self._journal, self._lock = journal, threading.Lock()
        self.earlier = journal.get_as(_SPENT, CallCost.model_validate) or CallCost()
        self.spent = CallCost()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # DSPy copies the usage tracker into each of its threads; what they spend is one sum.

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        """Count a request; DSPy reports none for an answer from its cache."""
        read, written = (token_count(usage_entry.get(f"{name}_tokens")) for name in ("prompt", "completion"))
        with self._lock:
            self.spent += CallCost(calls=1, prompt_tokens=read, completion_tokens=written)
            if self.spent.calls % _EVERY == 0:
                self._keep()
        if self._parent is not None:
            self._parent.add_usage(lm, usage_entry)

    def add_failed(self) -> None:
        """Count a request that was sent and got no reply that reports its usage."""
        self.add_usage("", {})

    @contextmanager
    def counting(self) -> Iterator[Self]:
        """Meanwhile requests are counted; in the end the sum is written down, so that a later run knows of it."""
        with dspy.context(usage_tracker=self):
            try:
                yield self
            finally:
                with self._lock:
                    self._keep()

    def _keep(self) -> None:
        if self.spent.calls:
            self._journal.put(_SPENT, (self.earlier + self.spent).model_dump(include=COUNTED))
