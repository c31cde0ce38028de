"""DSPy's own optimizers by name, over the program as `keqa.optimize.dspy_bridge.student.Student` shows it to them.

=========  ==============================  =====================================================================
name       what it changes                 what it needs
=========  ==============================  =====================================================================
``gepa``   instructions of all predictors  a language model that is able to reflect
``mipro``  instructions and                the package optuna; a language model that is able to write prompts
           demonstrations, not of judges
``simba``  the same                        the same language model as for ``mipro``
=========  ==============================  =====================================================================

MIPROv2 and SIMBA take demonstrations from whatever run ended well, which says nothing about a judge; the judges stay as
they are, with demonstrations by DESIGN.md's rules 8 and 9 alone.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import dspy

from keqa.data.example import Answered
from keqa.errors import ConfigurationError, MissingExtraError
from keqa.optimize.asking import Asking, Progress
from keqa.optimize.demos.from_traces import judges
from keqa.optimize.dspy_bridge.feedback import feedback_metric
from keqa.optimize.dspy_bridge.own_optimizer import run_own_optimizer
from keqa.optimize.dspy_bridge.quiet import no_straggler_retries, quiet
from keqa.optimize.dspy_bridge.reflection import as_reflecting, guarded, watched
from keqa.optimize.dspy_bridge.student import Student
from keqa.optimize.scoring import DspyMetric
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program

if TYPE_CHECKING:
    from keqa.optimize.options import Options

Budget = Literal["light", "medium", "heavy"]
BUDGETS: tuple[Budget, ...] = ("light", "medium", "heavy")
_STEPS = {"light": 2, "medium": 4, "heavy": 8}
_CANDIDATES = {"light": 3, "medium": 4, "heavy": 6}


@dataclass(frozen=True)
class _Job:
    """What an optimizer is given."""

    student: Student
    train: list[dspy.Example]
    val: list[dspy.Example]
    metric: Any
    reflection_lm: Any
    budget: Budget | int
    seed: int
    threads: int


def check_optimizer(name: str, reflection_lm: Any, budget: Budget | int) -> dspy.BaseLM:
    """Refuse what cannot work before any call is made."""
    if name not in OPTIMIZERS:
        raise ConfigurationError(
            f"unknown optimizer {name!r}; known: bootstrap, {', '.join(OPTIMIZERS)}, finetune, none"
        )
    if budget not in BUDGETS and not (isinstance(budget, int) and budget > 0):
        raise ConfigurationError(f"the budget must be one of {', '.join(BUDGETS)} or a number above 0, not {budget!r}")
    if name == "mipro" and importlib.util.find_spec("optuna") is None:
        raise MissingExtraError("compile", "MIPROv2")
    return as_reflecting(reflection_lm, name)


def tunable(program: Program, optimizer: str) -> list[str]:
    """The predictors that an optimizer may change: those that are switched on, without judges where they must stay."""
    if not isinstance(program, KEQA):
        stay = frozenset() if optimizer == "gepa" else judges(program)
        return [name for name, _ in program.named_predictors() if name not in stay]
    # Over one's own documents other prompts are asked in the place of two of the papers'.
    own = program.documents is not None and program.documents.own_prompts
    switched_on = {
        "decomposition.decompose": program.decompose,
        "documents.quiz": program.examine and own,
        "examination.quiz": program.examine and not own,
        "examination.same": program.examine and optimizer == "gepa",
        "picking.judge": program.pick and optimizer == "gepa",
        "selection.construct": program.select is not None,
        "documents.answer": own,
        "answering.answer": not own,
        "summarizing.summarize": program.decompose,
    }
    return [name for name, on in switched_on.items() if on]


def optimize(
    program: Program,
    trainset: Sequence[Answered],
    valset: Sequence[Answered],
    asking: Asking,
    options: Options,
) -> Program:
    """Run one of DSPy's optimizers."""
    name, budget, own = options.optimizer_name, options.budget, options.own_optimizer
    shown = tunable(program, "gepa" if isinstance(own, dspy.GEPA) else name)
    student = Student(program, asking, shown, name, _counted(name, budget, asking.progress))
    metric, scored = feedback_metric(asking.metric), DspyMetric.of_any(asking.metric)
    train, val = (list(map(scored.example, examples)) for examples in (trainset, valset))
    watching = nullcontext() if own is not None else watched(options.reflection_lm)
    with watching as reflecting, student.surfacing(), quiet(), no_straggler_retries():
        if own is not None:
            best = run_own_optimizer(own, student, train, val, _plain_score(metric), asking.in_flight)
        else:
            job = _Job(student, train, val, metric, reflecting, budget, options.seed, asking.in_flight)
            best = OPTIMIZERS[name](job)
    return _transferred(program, best.program, shown)


def _counted(name: str, budget: Budget | int, progress: Progress) -> Callable[[], None]:
    """Reports each question asked as progress."""
    number = itertools.count(1)
    total = budget if name == "gepa" and isinstance(budget, int) else 0

    def asked() -> None:
        done = next(number)
        progress(name, done, max(done, total))

    return asked


def _transferred(program: Program, optimized: Program, names: Sequence[str]) -> Program:
    """A copy of the program with what was changed, so that nothing else of the optimizer's stays with it."""
    result: Program = program.deepcopy()
    found = dict(optimized.named_predictors())
    for name, predictor in result.named_predictors():
        if name in names:
            instructions = found[name].signature.instructions
            predictor.signature = predictor.signature.with_instructions(instructions)
            fields = predictor.signature.fields
            required = {name for name, field in fields.items() if field.is_required()}
            shown = [{name: demo[name] for name in fields if name in demo} for demo in found[name].demos]
            # What lacks an output shows nothing that the predictor could do.
            predictor.demos = [dspy.Example(**demo) for demo in shown if demo.keys() >= required]
    return result


def _gepa(job: _Job) -> Student:
    limit = {"auto": job.budget} if isinstance(job.budget, str) else {"max_metric_calls": job.budget}
    optimizer = dspy.GEPA(
        job.metric,
        reflection_lm=job.reflection_lm,
        instruction_proposer=guarded(),
        num_threads=job.threads,
        seed=job.seed,
        use_merge=False,
        **limit,
    )
    best: Student = optimizer.compile(job.student, trainset=job.train, valset=job.val)
    return best


def _mipro(job: _Job) -> Student:
    number = isinstance(job.budget, int)
    optimizer = dspy.MIPROv2(
        _plain_score(job.metric),
        prompt_model=job.reflection_lm,
        task_model=job.student.get_lm(),
        max_bootstrapped_demos=4,
        # Raw questions are no demonstrations of the predictors within the program.
        max_labeled_demos=0,
        metric_threshold=0.8,
        auto=None if number else job.budget,
        num_candidates=3 if number else None,
        num_threads=job.threads,
        max_errors=10**6,
        seed=job.seed,
    )
    best: Student = optimizer.compile(
        job.student,
        trainset=job.train,
        valset=job.val,
        num_trials=job.budget if number else None,
        minibatch=len(job.val) > 50,
        minibatch_size=min(35, len(job.val)),
    )
    return best


def _simba(job: _Job) -> Student:
    number = isinstance(job.budget, int)
    optimizer = dspy.SIMBA(
        metric=_plain_score(job.metric),
        bsize=min(32, len(job.train)),
        num_candidates=3 if number else _CANDIDATES[str(job.budget)],
        max_steps=job.budget if number else _STEPS[str(job.budget)],
        prompt_model=job.reflection_lm,
        num_threads=job.threads,
    )
    best: Student = optimizer.compile(job.student, trainset=job.train, seed=job.seed)
    return best


OPTIMIZERS: dict[str, Callable[[_Job], Student]] = {"gepa": _gepa, "mipro": _mipro, "simba": _simba}


def _plain_score(metric: Any) -> Callable[..., float]:
    def scored(gold: Any, pred: Any, trace: Any = None) -> float:
        return float(metric(gold, pred).score)

    return scored
