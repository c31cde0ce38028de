"""DSPy's optimizers over a program: those that go by a name, and any that the user made.

A name stands for a teleprompter made ready; from there all take one path, over a journaled program that never shows a
question what was learned from it (`Student`). MIPROv2 and SIMBA take demonstrations from whatever run ended well, which
says nothing about a judge; the judges stay as they are.

DSPy's optimizers take an error of the language model that reflects for a proposal that came to nothing, and continue:
a wrong key would spend the whole budget. So it is asked once before any question is, and watched from then on.
"""

import copy
import importlib
import inspect
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, redirect_stdout
from functools import partial
from io import StringIO
from itertools import count
from types import SimpleNamespace
from typing import Any, Self

import dspy
from dspy.teleprompt import Teleprompter
from dspy.teleprompt.gepa import InstructionProposer
from dspy.utils.callback import BaseCallback

from keqa.data.example import Example
from keqa.data.question import AnswerType
from keqa.errors import ConfigurationError, KeqaError, MissingExtraError, TooManyFailuresError
from keqa.lms.factory import Roles
from keqa.optimize.asking import ROLES, Asking, Origins, lms_of
from keqa.optimize.failures import FailureMonitor
from keqa.optimize.judged import Step, judges
from keqa.optimize.options import Options
from keqa.optimize.scoring import example_for_metrics, optimizer_metric, score_of
from keqa.programs.calls.errors import CallError, is_transient, typed_error
from keqa.programs.calls.session import NoCopy
from keqa.programs.calls.texts import Guarded
from keqa.programs.keqa import KEQA
from keqa.programs.prediction import AnswerPrediction, prediction_of
from keqa.programs.program import Program

PREFIX = "program."
"""What stands before the name of a predictor in the student."""
_SIMBA = {"light": (3, 2), "medium": (4, 4), "heavy": (6, 8)}
"""Candidates and steps."""


def tunable(program: Program, optimizer: str) -> list[str]:
    """The predictors that an optimizer may change: those that are switched on, without judges where they must stay."""
    if not isinstance(program, KEQA):
        stay = frozenset() if optimizer == "gepa" else judges(program)
        return [name for name, _ in program.named_predictors() if name not in stay]
    # Over one's own documents other prompts are asked in the place of two of the papers', and forms have their own.
    own = program.documents is not None and program.documents.own_prompts
    quizzes, remembers = program.settle in ("quizzes", "cascade"), program.settle == "draft" and not program.declines
    apart, examines = quizzes and program.decompose, quizzes and program.examine
    drafts = examines or remembers or (program.settle == "cascade" and bool(program.chooser) and not program.declines)
    reads = program.citing is None or program.on_nothing_helpful == "top_passage"
    switched_on = {
        "decomposition.decompose": apart and program.drafting is None,
        "drafting.draft": apart and program.drafting is not None,
        "documents.quiz": drafts and own,
        "examination.quiz": drafts and not own,
        "examination.same": examines and program.drafting is None and optimizer == "gepa",
        "picking.judge": program.pick and program.citing is None and not remembers and optimizer == "gepa",
        "selection.construct": bool(program.select) and not remembers,
        "citing.cite": program.citing is not None and not remembers,
        "documents.answer": own and program.citing is None,
        "answering.answer": not own and reads and program.reasoning is None and not remembers,
        "reasoning.answer": program.reasoning is not None and not remembers,
        "summarizing.summarize": apart,
        "writing.write": program.style in ("sentence", "report"),
        "writing.items": program.style == "list",
        "writing.compare": program.style == "table",
    }
    return [name for name, on in switched_on.items() if on]


def optimizer_settings(optimizer: Teleprompter) -> dict[str, Any]:
    """What an optimizer was set up with, as far as these are plain values, and its name."""
    plain_types = (bool, int, float, str, type(None))
    plain: dict[str, Any] = {name: one for name, one in vars(optimizer).items() if isinstance(one, plain_types)}
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
    program: Program, trainset: Sequence[Example], valset: Sequence[Example], asking: Asking, options: Options
) -> Program:
    """What an optimizer makes of a copy of a program, on the same language models by role."""
    optimizer, name, lm = options.optimizer, options.optimizer_name, options.reflection_lm
    shown = tunable(program, "gepa" if isinstance(optimizer, dspy.GEPA) else name)
    limited = name == "gepa" and isinstance(options.budget, int)
    student = Student(program, asking, shown, name, options.budget if limited else 0)
    given = getattr(asking.metric, "given", {})
    train, val = ([example_for_metrics(one, given.get(one.id)) for one in some] for some in (trainset, valset))
    known = {(one.id, one.question): one for one in (*trainset, *valset)}

    def metric(gold: Any, pred: Any, trace: Any = None) -> float:
        return score_of(asking.metric, known[gold.id, gold.question], pred)

    more: dict[str, Any] = {}
    with nullcontext() if lm is None else watched(lm) as reflecting, student.surfacing(), quiet():
        if isinstance(optimizer, str):
            optimizer, more = ready_made(options, reflecting, student, metric, asking, len(train), len(val))
        best = run_optimizer(optimizer, student, train, val, metric, asking.in_flight, more)
    return _transferred(program, best, shown, asking.origins)


class Student(dspy.Module):
    """Wraps a program for an optimizer.

    * A question without an answer is a prediction without one, so that it scores 0 and does not end the optimizer.
    * What no other question would escape ends it: DSPy's optimizers score errors, so each further question is refused
      without a call, and `surfacing` raises the error in the end.
    * A demonstration that a question's own calls became is not shown to that question.
    * Only the predictors that may change are shown, under their names in the program with `PREFIX` before them.
    * Language models stay bound by role through copies and resets. Where an optimizer sets one of its own, to sample
      again, its temperature and rollout are taken over by the model of each role.
    """

    def __init__(
        self, program: Program, asking: Asking, predictors: Collection[str], name: str = "optimizing", most: int = 0
    ) -> None:
        """Get a program ready; where it is known how many questions will be asked, they are `most`."""
        super().__init__()
        self.program: Program = program.deepcopy()
        self._asking, self._watch = NoCopy(asking), NoCopy(asking.failures.watch(name))
        self._ended: NoCopy[list[Exception]] = NoCopy([])
        self._name, self._most, self._number = name, most, NoCopy(count(1))
        self._shown = frozenset(PREFIX + name for name in predictors)

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        return [(name, predictor) for name, predictor in super().named_predictors() if name in self._shown]

    def forward(
        self, id: str, question: str, answer_type: AnswerType = "short", choices: Sequence[str] = ()
    ) -> AnswerPrediction:
        """Answer, with the calls that were made for it in the optimizer's trace."""
        if self._ended.value:
            raise self._ended.value[0]
        asking, example = self._asking.value, Example(id, question, (), answer_type, tuple(choices))
        self.program.learned = asking.origins.known_to(self.program)
        try:
            trace = asking.ask(self.program, example)
            self._watch.value.add(trace.record, trace.error)
            self._watch.value.refuse()
        except (ConfigurationError, MissingExtraError, TooManyFailuresError) as error:
            self._ended.value.append(error)
            raise
        asked = next(self._number.value)
        asking.progress(self._name, asked, max(asked, self._most))
        signatures = {name: predictor.signature for name, predictor in self.program.named_predictors()}
        for name, inputs, outputs in trace.steps:
            asking.origins.add(signatures[name], {**inputs, **outputs}, example)
        self._show(trace.steps)
        if trace.record is None:
            return AnswerPrediction(explanation="", sources=[], answer=None)
        return prediction_of(trace.record)

    @contextmanager
    def surfacing(self) -> Iterator[None]:
        """Raise what ended the optimizer, which itself takes any error for a wrong answer."""
        error: Exception | None = None
        try:
            yield
        except Exception as raised:
            error = raised
        if self._ended.value:
            raise self._ended.value[0] from (None if error is self._ended.value[0] else error)
        if not self._watch.value.summary.asked:
            how = "" if error is None else f" ({type(error).__name__}: {error})"
            raise ConfigurationError(
                f"the optimizer ended{how}, and not one question had reached the program, so it learned nothing. DSPy "
                "copies the usage tracker of dspy.settings into each of its threads: where one of your own cannot be "
                "copied, in_flight=1 does without threads"
            ) from error
        if error is not None:
            raise error

    def _show(self, steps: Sequence[Step]) -> None:
        trace, predictors = dspy.settings.trace, dict(self.named_predictors())
        for name, inputs, outputs in steps if trace is not None else ():
            if PREFIX + name in predictors:
                trace.append((predictors[PREFIX + name], dict(inputs), dspy.Prediction(**outputs)))

    def get_lm(self) -> Any:
        """That of the task, from which optimizers make theirs."""
        lms = lms_of(self.program)
        return dspy.settings.lm if lms is None else lms.task

    def set_lm(self, lm: Any) -> None:
        """Draw as this language model does, each role on its own."""
        lms = lms_of(self.program)
        if lms is None:
            self.program.set_lm(lm)
            return
        settings = {name: lm.kwargs[name] for name in ("rollout_id", "temperature") if name in lm.kwargs}
        roles = {role: getattr(lms, role) for role in ROLES}
        copies = {id(one): one.copy(**settings) for one in roles.values()}
        drawing = {role: copies[id(one)] for role, one in roles.items()}
        self.program.bind_lms(Roles(**drawing, boundary=getattr(lms, "boundary", None)))

    def reset_copy(self) -> Self:
        """A copy without demonstrations, on the same language models."""
        new: Self = super().reset_copy()
        new.program.bind_lms(lms_of(self.program))
        return new


def ready_made(
    options: Options, lm: Any, student: Student, metric: Any, asking: Asking, train: int, val: int
) -> tuple[Teleprompter, dict[str, Any]]:
    """The teleprompter that a name stands for, and what its run takes besides so many questions.

    A budget that is a number is one of questions to ask (GEPA), of trials (MIPROv2) or of steps (SIMBA).
    """
    name, budget, seed = options.optimizer, options.budget, options.seed
    number, threads = isinstance(budget, int), {"num_threads": asking.in_flight}
    if name == "gepa":
        limit = {"max_metric_calls": budget} if number else {"auto": budget}
        settings = {"reflection_lm": lm, "seed": seed, "use_merge": False, **threads}
        return dspy.GEPA(optimizer_metric(asking.metric), **settings, **limit), {}
    how: dict[str, Any] = {"prompt_model": lm, **threads}
    if name == "mipro":
        how |= {"task_model": student.get_lm(), "max_bootstrapped_demos": 4, "metric_threshold": 0.8, "seed": seed}
        how |= {"auto": None, "num_candidates": 3} if number else {"auto": budget, "num_candidates": None}
        more = {"minibatch": val > 50, "minibatch_size": min(35, val), "num_trials": budget if number else None}
        return dspy.MIPROv2(metric, max_errors=10**6, **how), more
    candidates, steps = (3, budget) if number else _SIMBA[budget]
    how |= {"bsize": min(32, train), "num_candidates": candidates, "max_steps": steps}
    return dspy.SIMBA(metric=metric, **how), {"seed": seed}


def run_optimizer(
    optimizer: Teleprompter,
    student: Student,
    train: Sequence[dspy.Example],
    val: Sequence[dspy.Example],
    metric: Any,
    threads: int,
    more: Mapping[str, Any],
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


def _prepared(optimizer: Teleprompter, metric: Any) -> Any:
    """A copy with a metric, that shows no whole questions where calls of single steps have to be shown."""
    own: Any = copy.copy(optimizer)
    if hasattr(own, "metric") and own.metric is None:
        own.metric = metric
    if hasattr(own, "max_labeled_demos"):
        own.max_labeled_demos = 0
    if isinstance(own, dspy.GEPA) and isinstance(own.custom_instruction_proposer, InstructionProposer | None):
        # On guard: a passage or an answer that it is shown cannot close a field.
        writing = copy.copy(own.custom_instruction_proposer or InstructionProposer())
        own.custom_instruction_proposer, writing.adapter = writing, Guarded(writing.adapter)
    parts = getattr(own, "optimizers", None)
    if isinstance(parts, dict):
        own.optimizers = {name: _prepared(part, metric) for name, part in parts.items()}
    return own


def _transferred(program: Program, best: Student, names: Sequence[str], origins: Origins) -> Program:
    """A copy of the program with what was changed, so that nothing else of the optimizer's stays with it."""
    result: Program = program.deepcopy()
    found = dict(best.program.named_predictors())
    for name, predictor in result.named_predictors():
        if name in names:
            predictor.signature = predictor.signature.with_instructions(found[name].signature.instructions)
            fields = predictor.signature.fields
            required = {field for field, info in fields.items() if info.is_required()}
            shown = [{field: demo[field] for field in fields if field in demo} for demo in found[name].demos]
            # What lacks an output shows nothing that the predictor could do.
            predictor.demos = [dspy.Example(**demo) for demo in shown if demo.keys() >= required]
    result.learned = origins.known_to(result)
    return result


@contextmanager
def watched(lm: dspy.BaseLM) -> Iterator[dspy.BaseLM]:
    """Lend it to an optimizer, which is ended at once where no further request could do better."""
    watch = FailureMonitor("asking the reflection LM")
    try:
        yield lm.copy(callbacks=[*lm.callbacks, _Watching(watch, lm)])
    except _Ended as ended:
        raise ended.error from ended.__cause__
    requests = watch.summary
    if requests.asked and requests.failed == requests.asked:
        raise ConfigurationError(f"the reflection LM answered none of {requests.asked} requests ({requests.cause})")


class _Ended(BaseException):
    """Goes through the optimizer, which would survive an `Exception`."""

    def __init__(self, error: KeqaError) -> None:
        super().__init__(str(error))
        self.error = error


class _Watching(BaseCallback):
    """Hears how each request ended, and ends the optimizer where further requests are of no use."""

    def __init__(self, watch: FailureMonitor, lm: dspy.BaseLM) -> None:
        self._watch, self._lm = watch, lm

    def on_lm_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
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
    """Keep the optimizers' bars and logs from the terminal, since progress and results are shown by the caller."""
    names = ("gepa.core.engine", "dspy.teleprompt.bootstrap", "dspy.evaluate.evaluate", "dspy.predict.parallel")
    engine, bootstrapping, *running = map(importlib.import_module, names)
    silenced = SimpleNamespace(tqdm=partial(bootstrapping.tqdm.tqdm, disable=True))
    executor = running[0].ParallelExecutor

    # DSPy starts the last, slow questions of a batch a second time.
    def once(*arguments: Any, **settings: Any) -> Any:
        return executor(*arguments, **{**settings, "timeout": 0})

    replaced: list[tuple[Any, str, Any]] = [
        (engine, "tqdm", partial(engine.tqdm, disable=True)),
        (bootstrapping, "tqdm", silenced),
        *((module, "ParallelExecutor", once) for module in running),
    ]
    logger = logging.getLogger("dspy")
    with ExitStack() as before, redirect_stdout(StringIO()):
        before.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        for module, name, value in replaced:
            before.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield
