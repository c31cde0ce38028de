"""Bootstrapped demonstrations for every predictor, and the search for the set of them that serves best."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import dspy

from keqa.data.example import Answered
from keqa.optimize.alignment import Settled
from keqa.optimize.asking import Asking, Origins, Trace, Trial
from keqa.optimize.demos import Candidate, choose, from_calls, from_records, judges
from keqa.optimize.failures import FailureMonitor
from keqa.optimize.options import Options
from keqa.programs.calls.errors import CallError, is_transient
from keqa.programs.calls.session import Session, run_blocking, within
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program

P = TypeVar("P", bound=Program)

AS_IT_IS = "the program as it is"


def bootstrap(
    program: Program, trainset: Sequence[Answered], valset: Sequence[Answered], asking: Asking, options: Options
) -> tuple[Program, list[Trial], bool]:
    """Find demonstrations in what the program gets right on training questions, and whether there are any.

    A few sets of them, drawn at random with mixed kinds of examples, are scored on the validation split; every second
    set is half as large, since a small language model may do better with less to read. Other programs than KEQA may
    show all the passages that they found, so every third set of theirs is smaller still. The best is kept, and none
    that is not better than the program as it was. Unless every question is right by then, each predictor is tried
    without its demonstrations as well, or with them where the best has none: those of one predictor may help while
    those of another do harm.
    """
    best, trials = program, [asking.trial(program, AS_IT_IS, valset)]
    pools = possible(program, asking.traces(program, trainset, "answering training questions"), asking, options)
    signatures = {name: predictor.signature for name, predictor in program.named_predictors()}
    examples = {one.id: one for one in trainset}
    for name, pool in pools.items():
        for one in pool:
            asking.origins.add(signatures[name], one.demo, examples[one.root])

    def scored(chosen: Mapping[str, Sequence[Candidate]], name: str) -> bool:
        """Whether a set is the best so far."""
        nonlocal best
        candidate, most = with_demos(program, chosen, asking.origins), max(trial.score for trial in trials)
        trials.append(asking.trial(candidate, name, valset))
        better = trials[-1].score > most
        best = candidate if better else best
        return better

    tried: list[dict[str, list[Candidate]]] = []
    for number in range(options.sets if any(pools.values()) else 0):
        chosen = _drawn(program, pools, options, number)
        if chosen not in tried:
            tried.append(chosen)
            scored(chosen, f"demonstrations {number + 1}")
    if tried and max(trial.score for trial in trials) < 1:
        # The first trial is that of the program as it was.
        leading, _ = max(zip(tried, trials[1:], strict=True), key=lambda pair: pair[1].score)
        leading = {name: some for name, some in leading.items() if some}
        kept = {} if best is program else leading
        for name in leading if len(leading) > 1 else ():
            wanted = {other: some for other, some in leading.items() if (other in kept) != (other == name)}
            if scored(wanted, f"{'without' if name in kept else 'with'} those of {name}"):
                kept = wanted
    return best, trials, any(pools.values())


def _drawn(
    program: Program, pools: Mapping[str, list[Candidate]], options: Options, number: int
) -> dict[str, list[Candidate]]:
    """A set of demonstrations, by the name of the predictor."""
    judging, halved = judges(program), number % (2 if isinstance(program, KEQA) else 3)
    chosen = {}
    for name, pool in pools.items():
        most = options.judge_demos if name in judging else options.demos
        rng = random.Random(f"{options.seed} {number} {name}")
        chosen[name] = choose(pool, max(1, most >> halved) if most else 0, rng, balanced=name in judging)
    return chosen


def possible(program: Program, traces: Sequence[Trace], asking: Asking, options: Options) -> dict[str, list[Candidate]]:
    """All possible demonstrations, by the name of the predictor; what they lack is asked for."""
    if not isinstance(program, KEQA):
        return from_calls(program, traces, threshold=options.threshold)
    watch = asking.failures.watch("answering closed book")
    how: dict[str, Any] = {"threshold": options.threshold, "failures": asking.failures, "metric": asking.metric}
    return from_records(program, traces, closed_book=partial(closed_book, program, asking, watch), **how)


def closed_book(program: KEQA, asking: Asking, watch: FailureMonitor, one: Settled) -> float | None:
    """How right the closed-book answer to a quiz is that was not examined; None where there is none."""
    from keqa.lms.adapter import adapter

    session, recall = Session(program.bound, blocking=True), program.examination.recall
    asked = (one.quiz.resolved or "", one.answer_type, one.choices)
    try:
        with within(caller=asking.calls.predict), dspy.context(adapter=dspy.settings.adapter or adapter()):
            answer = run_blocking(lambda: session.run(recall(*asked)))
    except CallError as error:
        watch.outcome(error.cause, str(error) if is_transient(error.cause) and not error.unusable else None)
        return None
    watch.outcome(None)
    return asking.metric(answer, one.golds, one.answer_type, one.choices)


def with_demos(program: P, chosen: Mapping[str, Sequence[Candidate]], origins: Origins) -> P:
    """A copy of a program with demonstrations; predictors without any keep theirs."""
    copied: P = program.deepcopy()
    for name, predictor in copied.named_predictors():
        if chosen.get(name):
            predictor.demos = [dspy.Example(**one.demo) for one in chosen[name]]
    copied.learned = origins.known_to(copied)
    return copied
