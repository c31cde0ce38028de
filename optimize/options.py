"""How to compile and by which questions, checked before any call is made."""

import importlib.util
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import dspy
from dspy.teleprompt import Teleprompter

from keqa.data.example import Example
from keqa.data.own import read_examples, sort_examples
from keqa.data.question import question_digest, refuse_table
from keqa.errors import ConfigurationError, InputError, MissingExtraError
from keqa.lms.factory import build_lm
from keqa.lms.local.training import TrainingOptions
from keqa.programs.arguments import EMBEDDER, InFlight, Probability, checked, number, whole

BUDGETS = ("light", "medium", "heavy")
OPTIMIZERS = ("gepa", "mipro", "simba")
UNREFLECTING = ("bootstrap", "finetune", "none")
"""The optimizers that need no language model to reflect."""

_UNFIT = {
    "Ensemble": "it joins programs and learns nothing: compile each, and join them afterwards",
    "BootstrapFewShotWithOptuna": "it ends where a predictor is shown nothing; use BootstrapFewShotWithRandomSearch",
    "InferRules": "it writes into the class of a prompt, which all programs of the process share; use GEPA or MIPROv2",
    "KNNFewShot": "it replaces how a program is called, and what it finds cannot be saved; use BootstrapFewShot",
    "LabeledFewShot": "it shows whole questions to the predictors of single steps; use BootstrapFewShot",
    "BootstrapFinetune": "it changes language models and not prompts: optimizer='finetune' does so, and is resumable",
    "GRPO": "it changes language models and not prompts: run its own compile over the program",
}

_Demos = Annotated[int, whole(0, 1_000)]
_Cost = Annotated[float, number("a number from 0", ge=0)]


@checked
@dataclass(frozen=True)
class Options:
    """How to compile.

    Attributes:
        optimizer: ``bootstrap``, ``gepa``, ``mipro``, ``simba``, ``finetune`` or ``none``; or an optimizer of DSPy's
            of your own making, such as ``dspy.BootstrapFewShotWithRandomSearch(metric=...)``, which gets the metric of
            the compilation where it has none.
        reflection_lm: The language model that reflects (GEPA) or writes prompts (MIPROv2, SIMBA), or its model string.
        budget: Of GEPA, MIPROv2 and SIMBA; see `keqa.optimize.dspy_optimizers.optimize`.
        demos: Demonstrations of a predictor.
        judge_demos: Demonstrations of the consistency judge.
        sets: Sets of demonstrations to score.
        threshold: The final score that a question's decomposition and summary take to be demonstrations.
        reference: Whether to build the utility reference.
        embedder: Finds its demonstrations; see `keqa.programs.reference.embedding.open_embedder`. That of the
            program's own reference where None, or ``hashing`` where it has none.
        tuning: Whether to tune the settings.
        grid: The values to try by setting, such as ``{"tries": (3, 5)}``; what is not in it is tried as
            `keqa.optimize.tuning.GRID` has it.
        cost_per_retrieval: λ, what a search costs in the metric's units; None is .02: one search more for each question
            has to gain two hundredths. Without it a gate that searches for nearly everything is as good as one that
            knows what is known.
        seed: Another seed draws other demonstrations.
        in_flight: Questions in work at once.
        training: Of ``finetune``: `keqa.lms.local.training.TrainingOptions` by name.
        cost_per_call: μ, what a reply of a language model costs in the metric's units; None is .002: of two programs
            that answer alike the one with fewer calls is taken.
        boundary: Whether to train a boundary model and to try it as the gate, where settings are tuned and the program
            has KEQA's own gate.
        boundary_tries: Draws to each quiz that it is trained on.
    """

    optimizer: Any = "bootstrap"
    reflection_lm: Any = None
    budget: Any = "light"
    demos: _Demos = 4
    judge_demos: _Demos = 8
    sets: _Demos = 4
    threshold: Probability = 0.5
    reference: bool = True
    embedder: Annotated[Any, EMBEDDER] | None = None
    tuning: bool = True
    grid: Mapping[str, Any] = field(default_factory=dict)
    cost_per_retrieval: _Cost | None = None
    seed: int = 0
    in_flight: InFlight = 8
    training: Mapping[str, Any] = field(default_factory=dict)
    cost_per_call: _Cost | None = None
    boundary: bool = True
    boundary_tries: Annotated[int, whole(5, 1_000)] = 10

    def __post_init__(self) -> None:
        own = isinstance(self.optimizer, Teleprompter)
        for kind in type(self.optimizer).__mro__:
            if kind.__name__ in _UNFIT:
                raise ConfigurationError(f"keqa.compile cannot use {kind.__name__}: {_UNFIT[kind.__name__]}")
        if not own and self.optimizer not in UNREFLECTING:
            object.__setattr__(self, "reflection_lm", _reflecting(self.optimizer, self.reflection_lm, self.budget))
        for name, given in (("reflection_lm", self.reflection_lm is not None), ("budget", self.budget != "light")):
            if given and own:
                raise ConfigurationError(f"give {name} to {self.optimizer_name}(...) itself, and leave it out here")
            if given and self.optimizer in UNREFLECTING:
                raise ConfigurationError(
                    f"{name} is that of {', '.join(OPTIMIZERS)}, and {self.optimizer} has none. Name one of them as "
                    f"the optimizer, or leave {name} out"
                )
        if self.training and self.optimizer != "finetune":
            raise ConfigurationError(f"training is that of finetune; {self.optimizer_name} trains no language model")
        TrainingOptions.of({name: value for name, value in self.training.items() if name != "folder"})

    @property
    def costs(self) -> dict[str, Any]:
        """λ and μ by name, as they were given or by default."""
        given = {"cost_per_retrieval": (self.cost_per_retrieval, 0.02), "cost_per_call": (self.cost_per_call, 0.002)}
        return {name: default if cost is None else cost for name, (cost, default) in given.items()}

    @property
    def optimizer_name(self) -> str:
        return self.optimizer if isinstance(self.optimizer, str) else type(self.optimizer).__name__


def _reflecting(name: str, reflection_lm: Any, budget: Any) -> dspy.BaseLM:
    """The language model that reflects, built where it is named."""
    if name not in OPTIMIZERS:
        raise ConfigurationError(
            f"unknown optimizer {name!r}; known: bootstrap, {', '.join(OPTIMIZERS)}, finetune, none"
        )
    if budget not in BUDGETS and not (isinstance(budget, int) and budget > 0):
        raise ConfigurationError(f"the budget must be one of {', '.join(BUDGETS)} or a number above 0, not {budget!r}")
    if name == "mipro" and importlib.util.find_spec("optuna") is None:
        raise MissingExtraError("compile", "MIPROv2")
    if reflection_lm is None:
        raise ConfigurationError(
            f"{name} needs a language model that is able to reflect on what went wrong and to write instructions: "
            "name one with reflection_lm=... (on the command line, --reflection-lm)"
        )
    lm = build_lm(reflection_lm) if isinstance(reflection_lm, str) else reflection_lm
    if not isinstance(lm, dspy.BaseLM):
        raise ConfigurationError(f"reflection_lm must be a language model or a model string, not {lm!r}")
    return lm


Questions = Iterable[Any] | str | Path
"""Examples in any of the forms that `keqa.data.example.as_examples` takes, or a file of them."""

_FEW = 8
_HELD_OUT = 4
_MOST_HELD_OUT = 100


@dataclass(frozen=True)
class Split:
    """Questions to learn from and to choose by."""

    train: list[Example]
    val: list[Example]
    problems: list[str] = field(default_factory=list)


def held_out(questions: int) -> int:
    """How many of so many training questions choose; of few all learn and choose."""
    return min(questions // _HELD_OUT, _MOST_HELD_OUT) if questions >= _FEW else 0


def split(trainset: Questions, valset: Questions | None, seed: int) -> Split:
    """Read the questions and keep the two parts apart; by default a seeded quarter, at most 100, is held out."""
    train, problems = _read(trainset, "train")
    if valset is None:
        if not (held := held_out(len(train))):
            problems.append(f"{len(train)} training questions are too few to hold some out: they choose as well")
            return Split(train, list(train), problems)
        places = set(random.Random(f"validation {seed}").sample(range(len(train)), held))
        val = [example for place, example in enumerate(train) if place in places]
        return Split([example for place, example in enumerate(train) if place not in places], val, problems)
    val, more = _read(valset, "validation")
    known = set(map(_asked, train))
    fresh = [example for example in val if _asked(example) not in known]
    if not fresh:
        raise InputError("every validation question is a training question as well")
    seen = [
        f"validation question {example.question!r} is a training question as well: left out of the validation questions"
        for example in val
        if _asked(example) in known
    ]
    return Split(train, fresh, [*problems, *more, *seen])


def _read(source: Questions, what: str) -> tuple[list[Example], list[str]]:
    if not isinstance(source, Iterable | Path):
        raise InputError(f"the {what} questions must be examples, or a file of them, not {source!r}")
    refuse_table(source, "keqa.compile")
    reading = read_examples(source) if isinstance(source, str | Path) else sort_examples(source)
    if not reading.examples:
        details = "".join(f"\n  {problem}" for problem in reading.problems[:5])
        raise InputError(f"no {what} question can be used{details}")
    return reading.examples, [f"{what}: {one}" for one in reading.remarks]


def _asked(example: Example) -> str:
    return question_digest(example.question, example.choices)
