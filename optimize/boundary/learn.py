"""The boundary model of a compilation: collected from its training questions, and trained, where there are enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keqa.data.example import Example
from keqa.data.quiz_references import plain
from keqa.errors import InputError
from keqa.optimize.alignment import GoldQuiz
from keqa.optimize.boundary.collect import Progress, collect, quizzes_of
from keqa.optimize.boundary.train import FEWEST_QUESTIONS, FEWEST_QUIZZES, Trained, train_light, train_stepwise
from keqa.programs.boundary import LightModel, StepwiseModel
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA
from keqa.programs.runtime.shared_samples import DrawStore


def may_learn(program: Any) -> bool:
    """Whether a boundary model could decide for a program: one with KEQA's own gate, and not one that was chosen."""
    return isinstance(program, KEQA) and program.examine and type(program.examination.gate) is VoteGate


def learn(
    program: KEQA,
    train: Sequence[Example],
    val: Sequence[Example],
    *,
    tries: int,
    as_needed: bool = False,
    store: DrawStore,
    in_flight: int,
    progress: Progress,
) -> Trained[LightModel] | Trained[StepwiseModel]:
    """Collect draws to the quizzes of training questions, and train a light model on them.

    By default it reads one draft where the language model gives the probabilities of its tokens, and else the draws.
    """
    if {one.id for one in train} & {one.id for one in val}:
        raise InputError("the training questions choose as well, so that a boundary model would be chosen by its own")
    left_out = {_asked(one) for one in quizzes_of(val)}
    left_out |= {
        (plain(str(demo.get("quiz", ""))), tuple(map(str, demo.get("choices") or ())))
        for demo in program.examination.quiz.demos
    }

    def wanted(one: GoldQuiz) -> bool:
        return _asked(one) not in left_out

    usable = [one for one in quizzes_of(train) if wanted(one)]
    if len(usable) < FEWEST_QUIZZES or len({one.root for one in usable}) < FEWEST_QUESTIONS:
        raise InputError(f"{len(usable)} quizzes are too few to train a boundary model on")
    collected = collect(
        program, train, tries=tries, store=store, in_flight=in_flight, split="train", wanted=wanted, progress=progress
    )
    if as_needed:
        return train_stepwise([collected])
    likely = all(quiz.signals().has_probabilities for quiz in collected.quizzes)
    return train_light([collected], reads="draft" if likely else "draws")


def _asked(asked: GoldQuiz) -> tuple[str, tuple[str, ...]]:
    return plain(asked.quiz), asked.choices
