"""DSPy's optimizers over a program: those that go by a name, and any that the user made.

=========  ==============================  =====================================================================
name       what it changes                 what it needs
=========  ==============================  =====================================================================
``gepa``   instructions of all predictors  a language model that is able to reflect
``mipro``  instructions and                the package optuna; a language model that is able to write prompts
           demonstrations, not of judges
``simba``  the same                        the same language model as for ``mipro``
=========  ==============================  =====================================================================

A name stands for a teleprompter made ready; from there all take one path, over a journaled program that never shows a
question what was learned from it (`keqa.optimize.student.Student`). MIPROv2 and SIMBA take demonstrations from whatever
run ended well, which says nothing about a judge; the judges stay as they are, with demonstrations by DESIGN.md's rules
8 and 9 alone.

The language model that reflects is asked once before any question is, and watched from then on: DSPy's optimizers take
each of its errors for a proposal that came to nothing, and continue. So a wrong key would spend the whole budget, and
what was found would be called no better.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import inspect
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from types import MappingProxyType, SimpleNamespace
from typing import Any, Literal

import dspy
from dspy.teleprompt import Teleprompter
from dspy.teleprompt.gepa import InstructionProposer
from dspy.utils.callback import BaseCallback

from keqa.data.example import Answered
from keqa.errors import ConfigurationError, KeqaError, MissingExtraError, TooManyFailuresError
from keqa.lms.factory import build_lm
from keqa.optimize.asking import Asking, Progress
from keqa.optimize.demos import judges
from keqa.optimize.failures import FailureMonitor, Failures
from keqa.optimize.scoring import DspyMetric, feedback_metric
from keqa.optimize.student import Student
from keqa.programs.calls.errors import CallError, is_transient, typed_error
from keqa.programs.calls.texts import Guarded
from keqa.programs.keqa import KEQA
from keqa.programs.program import Program

Budget = Literal["light", "medium", "heavy"]
BUDGETS: tuple[Budget, ...] = ("light", "medium", "heavy")
OPTIMIZERS = ("gepa", "mipro", "simba")
_SIMBA = {"light": (3, 2), "medium": (4, 4), "heavy": (6, 8)}
"""Candidates and steps."""
_UNFIT = {
    "Ensemble": "it joins programs and learns nothing: compile each, and join them afterwards",
    "KNNFewShot": "it replaces how a program is called, and what it finds cannot be saved; use BootstrapFewShot",
    "LabeledFewShot": "it shows whole questions to the predictors of single steps; use BootstrapFewShot",
    "BootstrapFinetune": "it changes language models and not prompts: optimizer='finetune' does so, and is resumable",
    "GRPO": "it changes language models and not prompts: run its own compile over the program",
}


def check_own_optimizer(optimizer: Teleprompter) -> None:
    """Refuse, before any call is made, what learns nothing that a program's prompts could keep."""
    for kind in type(optimizer).__mro__:
        if kind.__name__ in _UNFIT:
            raise ConfigurationError(f"keqa.compile cannot use {kind.__name__}: {_UNFIT[kind.__name__]}")


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
    return _as_reflecting(reflection_lm, name)


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
        "selection.construct": bool(program.select),
        "documents.answer": own,
        "answering.answer": not own,
        "summarizing.summarize": program.decompose,
    }
    return [name for name, on in switched_on.items() if on]


def optimizer_settings(optimizer: Teleprompter) -> dict[str, Any]:
    """What an optimizer was set up with, as far as these are plain values, and its name."""
    plain: dict[str, Any] = {
        name: value
        for name, value in vars(optimizer).items()
        if value is None or isinstance(value, bool | int | float | str)
    }
    parts = getattr(optimizer, "optimizers", None)
    if isinstance(parts, dict):
        plain["optimizers"] = {name: optimizer_settings(part) for name, part in parts.items()}
    return {"optimizer": type(optimizer).__name__, **plain}


def ask_once(lm: dspy.BaseLM) -> None:
    """Make sure that it can be asked, before questions are asked for nothing."""
    try:
        lm("Reply with one word: ready")
    except Exception as error:
        raise _explained(error, lm) from error


def optimize(
    program: Program,
    trainset: Sequence[Answered],
    valset: Sequence[Answered],
    asking: Asking,
    optimizer: str | Teleprompter,
    *,
    reflection_lm: Any = None,
    budget: Budget | int = "light",
    seed: int = 0,
) -> Program:
    """What an optimizer makes of a copy of a program, on the same language models by role.

    A run that was killed goes through what it asked without a call; what the reflecting language model wrote comes from
    DSPy's cache, where that is on. A budget that is a number is one of questions to ask (GEPA), of trials (MIPROv2) or
    of steps (SIMBA).
    """
    own = not isinstance(optimizer, str)
    name = type(optimizer).__name__ if own else str(optimizer)
    shown = tunable(program, "gepa" if isinstance(optimizer, dspy.GEPA) else name)
    student = Student(program, asking, shown, name, _counted(name, budget, asking.progress))
    feedback, scored = feedback_metric(asking.metric), DspyMetric.of_any(asking.metric)
    train, val = ([scored.example(one) for one in some] for some in (trainset, valset))
    more: dict[str, Any] = {}
    watching = nullcontext() if own else watched(reflection_lm)
    with watching as reflecting, student.surfacing(), quiet(), _no_straggler_retries():
        if isinstance(optimizer, str):
            counts = len(train), len(val), asking.in_flight
            optimizer, more = ready_made(name, student, feedback, reflecting, budget, seed, *counts)
        best = run_optimizer(optimizer, student, train, val, _plain_score(feedback), asking.in_flight, more)
    return _transferred(program, best, shown)


def ready_made(
    name: str,
    student: Student,
    feedback: Callable[..., Any],
    reflection_lm: Any,
    budget: Budget | int,
    seed: int,
    learned_from: int,
    chosen_by: int,
    threads: int,
) -> tuple[Teleprompter, dict[str, Any]]:
    """The teleprompter that a name stands for, and what its run takes besides the questions."""
    number, plain = isinstance(budget, int), _plain_score(feedback)
    if name == "gepa":
        limit = {"max_metric_calls": budget} if number else {"auto": budget}
        settings = {"reflection_lm": reflection_lm, "num_threads": threads, "seed": seed, "use_merge": False}
        return dspy.GEPA(feedback, **settings, **limit), {}
    how: dict[str, Any] = {"prompt_model": reflection_lm, "num_threads": threads}
    if name == "mipro":
        how |= {"task_model": student.get_lm(), "max_bootstrapped_demos": 4, "metric_threshold": 0.8, "seed": seed}
        how |= {"auto": None, "num_candidates": 3} if number else {"auto": budget, "num_candidates": None}
        more = {"minibatch": chosen_by > 50, "minibatch_size": min(35, chosen_by)}
        return dspy.MIPROv2(plain, max_errors=10**6, **how), {"num_trials": budget if number else None, **more}
    candidates, steps = (3, budget) if number else _SIMBA[str(budget)]
    how |= {"bsize": min(32, learned_from), "num_candidates": candidates, "max_steps": steps}
    return dspy.SIMBA(metric=plain, **how), {"seed": seed}


def run_optimizer(
    optimizer: Teleprompter,
    student: Student,
    train: Sequence[dspy.Example],
    val: Sequence[dspy.Example],
    metric: Callable[..., Any],
    threads: int,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Student:
    """What an optimizer, which stays as it is, makes of the student."""
    own, more = _prepared(optimizer, metric), dict(more)
    parameters = inspect.signature(own.compile).parameters
    if "valset" in parameters:
        more["valset"] = list(val)
    if "eval_kwargs" in parameters:
        more["eval_kwargs"] = {"num_threads": threads, "display_progress": False, "display_table": 0}
    # Some ask the language model of the settings to write prompts.
    with dspy.context(lm=dspy.settings.lm or student.get_lm()):
        best = own.compile(student, trainset=list(train), **more)
    if not isinstance(best, Student):
        raise ConfigurationError(
            f"{type(optimizer).__name__} returned a {type(best).__name__}, not the program with other prompts: run its "
            "own compile over the program"
        )
    return best


def _prepared(optimizer: Teleprompter, metric: Callable[..., Any]) -> Any:
    """A copy with a metric, that shows no whole questions where calls of single steps have to be shown."""
    own: Any = copy.copy(optimizer)
    if hasattr(own, "metric") and own.metric is None:
        own.metric = metric
    if hasattr(own, "max_labeled_demos"):
        own.max_labeled_demos = 0
    if isinstance(own, dspy.GEPA) and isinstance(own.custom_instruction_proposer, InstructionProposer | None):
        own.custom_instruction_proposer = guarded(own.custom_instruction_proposer)
    parts = getattr(own, "optimizers", None)
    if isinstance(parts, dict):
        own.optimizers = {name: _prepared(part, metric) for name, part in parts.items()}
    return own


def _counted(name: str, budget: Budget | int, progress: Progress) -> Callable[[], None]:
    """Reports each question asked as progress."""
    number = itertools.count(1)
    total = budget if name == "gepa" and isinstance(budget, int) else 0

    def asked() -> None:
        done = next(number)
        progress(name, done, max(done, total))

    return asked


def _transferred(program: Program, best: Student, names: Sequence[str]) -> Program:
    """A copy of the program with what was changed, so that nothing else of the optimizer's stays with it."""
    result: Program = program.deepcopy()
    found = dict(best.program.named_predictors())
    for name, predictor in result.named_predictors():
        if name in names:
            instructions = found[name].signature.instructions
            predictor.signature = predictor.signature.with_instructions(instructions)
            fields = predictor.signature.fields
            required = {name for name, field in fields.items() if field.is_required()}
            shown = [{name: demo[name] for name in fields if name in demo} for demo in found[name].demos]
            # What lacks an output shows nothing that the predictor could do.
            predictor.demos = [dspy.Example(**demo) for demo in shown if demo.keys() >= required]
    result.learned = best.known_to(result)
    return result


def _plain_score(metric: Any) -> Callable[..., float]:
    def scored(gold: Any, pred: Any, trace: Any = None) -> float:
        return float(metric(gold, pred).score)

    return scored


def _as_reflecting(lm: Any, optimizer: str) -> dspy.BaseLM:
    """The language model that reflects, built where a model string names it."""
    if lm is None:
        raise ConfigurationError(
            f"{optimizer} needs a language model that is able to reflect on what went wrong and to write instructions: "
            "name one with reflection_lm=... (on the command line, --reflection-lm)"
        )
    if isinstance(lm, str):
        return build_lm(lm)
    if not isinstance(lm, dspy.BaseLM):
        raise ConfigurationError(f"reflection_lm must be a language model or a model string, not {lm!r}")
    return lm


@contextmanager
def watched(lm: dspy.BaseLM) -> Iterator[dspy.BaseLM]:
    """Lend it to an optimizer, which is ended at once where no further request could do better."""
    watch = Failures().watch("asking the reflection LM")
    try:
        yield lm.copy(callbacks=[*lm.callbacks, _Watching(watch, lm)])
    except _Ended as ended:
        raise ended.error from ended.__cause__
    requests = watch.summary
    if requests.asked and requests.failed == requests.asked:
        raise ConfigurationError(f"the reflection LM answered none of {requests.asked} requests ({requests.cause})")


def guarded(proposer: InstructionProposer | None = None) -> InstructionProposer:
    """What writes GEPA's instructions, on guard: a passage or an answer that it is shown cannot close a field."""
    found: InstructionProposer = copy.copy(proposer) if proposer is not None else InstructionProposer()
    found.adapter = Guarded(found.adapter)
    return found


class _Ended(BaseException):
    """Goes through the optimizer, which would survive an `Exception`."""

    def __init__(self, error: KeqaError) -> None:
        super().__init__(str(error))
        self.error = error


class _Watching(BaseCallback):
    """Hears how each request ended."""

    def __init__(self, watch: FailureMonitor, lm: dspy.BaseLM) -> None:
        self._watch, self._lm = watch, lm

    def on_lm_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
        """Count the request, and end the optimizer where further requests are of no use."""
        failure = typed_error(exception, [self._lm]) if isinstance(exception, Exception) else None
        if failure is not None and not isinstance(failure, CallError):
            raise _Ended(_explained(exception, self._lm)) from exception
        cause = None if failure is None else failure.cause
        try:
            self._watch.outcome(cause, str(failure) if cause and is_transient(cause) else None)
        except TooManyFailuresError as error:
            raise _Ended(error) from exception


def _explained(error: Exception, lm: dspy.BaseLM) -> KeqaError:
    """The error as the project's own, which names the language model's role."""
    found = typed_error(error, [lm])
    if isinstance(found, MissingExtraError):
        return found
    kind = TooManyFailuresError if isinstance(found, CallError) and is_transient(found.cause) else ConfigurationError
    return kind(f"the reflection LM (reflection_lm) cannot be asked: {found}")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the optimizers' own bars and logs from the terminal: progress and results are shown by the caller."""
    engine: Any = importlib.import_module("gepa.core.engine")
    bootstrapping: Any = importlib.import_module("dspy.teleprompt.bootstrap")

    logger = logging.getLogger("dspy")
    level, bar, bars = logger.level, engine.tqdm, bootstrapping.tqdm
    logger.setLevel(logging.ERROR)
    engine.tqdm = functools.partial(bar, disable=True)
    bootstrapping.tqdm = SimpleNamespace(tqdm=functools.partial(bars.tqdm, disable=True))
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logger.setLevel(level)
        engine.tqdm, bootstrapping.tqdm = bar, bars


@contextmanager
def _no_straggler_retries() -> Iterator[None]:
    """DSPy starts the last, slow questions of a batch a second time; while it does not, each is asked once."""
    import dspy.evaluate.evaluate as evaluating
    import dspy.predict.parallel as parallel

    before = (evaluating.ParallelExecutor, parallel.ParallelExecutor)
    evaluating.ParallelExecutor, parallel.ParallelExecutor = map(_without_restarts, before)
    try:
        yield
    finally:
        evaluating.ParallelExecutor, parallel.ParallelExecutor = before


def _without_restarts(executor: Any) -> Callable[..., Any]:
    return lambda *arguments, **settings: executor(*arguments, **{**settings, "timeout": 0})
