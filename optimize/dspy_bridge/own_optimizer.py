"""An optimizer that the user made, such as ``dspy.BootstrapFewShotWithRandomSearch(...)``, over the program.

It runs as the built-in ones do: on a journaled program that never shows a question what was learned from it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import dspy
from dspy.teleprompt import Teleprompter
from dspy.teleprompt.gepa import InstructionProposer

from keqa.errors import ConfigurationError
from keqa.optimize.dspy_bridge.reflection import guarded
from keqa.optimize.dspy_bridge.student import Student

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


def run_own_optimizer(
    optimizer: Teleprompter,
    student: Student,
    train: Sequence[dspy.Example],
    val: Sequence[dspy.Example],
    metric: Callable[..., Any],
    threads: int,
) -> Student:
    """Run an optimizer."""
    own = _prepared(optimizer, metric)
    parameters = inspect.signature(own.compile).parameters
    more: dict[str, Any] = {}
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
