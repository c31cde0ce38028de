"""Bootstrapped demonstrations for every predictor, and the search for the set of them that serves best."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import dspy

from keqa.data.example import Answered
from keqa.optimize.alignment import Settled
from keqa.optimize.asking import Asking, Origins, Trace, Trial, state_of
from keqa.optimize.demos import Candidate, choose, from_calls, from_records, judges
from keqa.optimize.options import Options
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.session import Session, run_blocking
from keqa.programs.fingerprint import digest
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program
from keqa.programs.records import Record

P = TypeVar("P", bound=Program)


@dataclass(frozen=True)
class Bootstrapped:
    """What bootstrapping found."""

    program: Program
    trials: list[Trial]
    found: dict[str, int] = field(default_factory=dict)


def bootstrap(
    program: Program,
    trainset: Sequence[Answered],
    valset: Sequence[Answered],
    asking: Asking,
    options: Options,
) -> Bootstrapped:
    """Find demonstrations in what the program gets right on training questions.

    A few sets of them, drawn at random with mixed kinds of examples, are scored on the validation split; every second
    set is half as large, since a small language model may do better with less to read. Other programs than KEQA may
    show all the passages that they found, so every third set of theirs is smaller still. The best is kept, and none
    that is not better than the program as it was. Unless every question is right by then, each predictor is tried
    without its demonstrations as well, or with them where the best has none: those of one predictor may help while
    those of another do harm.
    """
    steps = not isinstance(program, KEQA)
    best, trials = program, [asking.trial(program, "the program as it is", valset, steps=steps)]
    traces = asking.traces(program, trainset, "answering training questions", steps=steps)
    pools = possible(program, traces, asking, options.threshold)
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    judging, examples = judges(program), {one.id: one for one in trainset}
    for name, pool in pools.items():
        for one in pool:
            asking.origins.add(signatures[name], one.demo, examples[one.root])
    tried: list[dict[str, list[Candidate]]] = []
    for number in range(options.sets if any(pools.values()) else 0):
        halved = number % (2 if isinstance(program, KEQA) else 3)
        chosen = {
            name: choose(
                pool,
                _size(options.judge_demos if name in judging else options.demos, halved),
                random.Random(f"{options.seed} {number} {name}"),
                balanced=name in judging,
            )
            for name, pool in pools.items()
        }
        if chosen in tried:
            continue
        tried.append(chosen)
        candidate = with_demos(program, chosen, asking.origins)
        trials.append(asking.trial(candidate, f"demonstrations {number + 1}", valset))
        if trials[-1].score > max(trial.score for trial in trials[:-1]):
            best = candidate
    if tried and max(trial.score for trial in trials) < 1:
        # The first trial is that of the program as it was.
        leading_set, _ = max(zip(tried, trials[1:], strict=True), key=lambda pair: pair[1].score)
        leading = {name: some for name, some in leading_set.items() if some}
        kept = {} if best is program else leading
        for name in leading if len(leading) > 1 else ():
            wanted = {other: some for other, some in leading.items() if (other in kept) != (other == name)}
            candidate = with_demos(program, wanted, asking.origins)
            how = "without those of" if name in kept else "with those of"
            trials.append(asking.trial(candidate, f"{how} {name}", valset))
            if trials[-1].score > max(trial.score for trial in trials[:-1]):
                best, kept = candidate, wanted
    return Bootstrapped(best, trials, {name: len(pool) for name, pool in pools.items()})


def possible(program: Program, traces: Sequence[Trace], asking: Asking, threshold: float) -> dict[str, list[Candidate]]:
    """All possible demonstrations, by the name of the predictor; what they lack is asked for."""
    if not isinstance(program, KEQA):
        return from_calls(program, traces, threshold=threshold)
    return from_records(
        program,
        traces,
        metric=asking.metric,
        threshold=threshold,
        closed_book=ClosedBookAnswers(program, asking),
        failures=asking.failures,
    )


def with_demos(program: P, chosen: Mapping[str, Sequence[Candidate]], origins: Origins) -> P:
    """A copy of a program with demonstrations; predictors without any keep theirs."""
    copied: P = program.deepcopy()
    for name, predictor in copied.named_predictors():
        if chosen.get(name):
            predictor.demos = [dspy.Example(**one.demo) for one in chosen[name]]
    copied.learned = origins.known_to(copied)
    return copied


def _size(count: int, halved: int) -> int:
    return max(1, count >> halved) if count else 0


class _Recalled(Record):
    """What a journal keeps of a closed-book answer: the answer, or the name of the error that it failed with."""

    answer: str | None = None
    cause: str | None = None


class ClosedBookAnswers:
    """Answers a quiz closed-book, once, for programs that do not examine; kept like any answer."""

    def __init__(self, program: KEQA, asking: Asking) -> None:
        self.program, self.journal, self.metric = program, asking.journal, asking.metric
        self.state = state_of(program)
        self.watch = asking.failures.watch("answering closed book")

    def __call__(self, trace: Trace, one: Settled) -> float | None:
        """How right the answer to a quiz is; None where there is none."""
        text = one.quiz.resolved or ""
        key = f"{self.state}:closed book:{digest([text, one.answer_type, one.choices])}"
        kept = self.journal.get_as(key, _Recalled.model_validate)
        if kept is None:
            kept = self._asked(key, text, one)
        else:
            self.watch.count(kept.cause or "" if kept.answer is None else None, earlier=True)
        return None if kept.answer is None else self.metric(kept.answer, one.golds, one.answer_type, one.choices)

    def _asked(self, key: str, text: str, one: Settled) -> _Recalled:
        from keqa.lms.adapter import adapter

        session = Session(self.program.bound, blocking=True)
        recall = self.program.examination.recall
        with dspy.context(adapter=dspy.settings.adapter or adapter()):
            try:
                kept = _Recalled(answer=run_blocking(lambda: session.run(recall(text, one.answer_type, one.choices))))
            except CallError as error:
                kept = _Recalled(cause=error.cause)
                if error.unusable or is_transient(error.cause):
                    self.watch.outcome(error.cause, None if error.unusable else str(error))
                    return kept
        self.journal.put(key, kept.model_dump(mode="json"))
        self.watch.outcome(kept.cause)
        return kept
