"""What tests of programs share."""

from collections.abc import Callable, Sequence
from typing import Any

import dspy
import pytest


@pytest.fixture
def bootstrapped() -> Callable[[dspy.Module, Sequence[str]], dspy.Module]:
    """Compiles a program with at most two demonstrations a predictor, from questions whose answer is Ann."""

    def compiled(program: dspy.Module, questions: Sequence[str]) -> dspy.Module:
        optimizer = dspy.BootstrapFewShot(
            metric=lambda example, prediction, trace=None: example.answer == prediction.answer,
            max_bootstrapped_demos=2,
            max_labeled_demos=0,
        )
        train = [dspy.Example(question=question, answer="Ann").with_inputs("question") for question in questions]
        return optimizer.compile(program, trainset=train)

    return compiled


@pytest.fixture
def programmed(scripted: Any) -> Callable[..., tuple[Any, Any]]:
    """Has a scripted language model answer a program in all roles; gives the program and the model's engine."""

    def bound(program: Any, reply: Any, **settings: Any) -> tuple[Any, Any]:
        lm, engine = scripted(reply, **settings)
        program.set_lm(lm)
        return program, engine

    return bound
