"""What tests of programs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
