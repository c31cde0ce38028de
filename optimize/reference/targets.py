"""What is answered to label the passages of one training question: the question itself, and its gold quizzes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from keqa.data.example import Example
from keqa.data.question import Question
from keqa.data.quiz_references import parse, resolve
from keqa.metrics.answers import same_answer
from keqa.optimize.reference.entries import Basis
from keqa.programs.stages.decomposition import is_the_question

Rule = Literal["auto", "growing", "one passage"]
Reason = Literal["auto"] | bool


@dataclass(frozen=True)
class Target:
    """What is to be answered, and how.

    Attributes:
        name: For messages.
        asked: Question or resolved quiz.
        golds: Its gold answers.
        basis: Which of the two it is.
        growing: Whether helpful passages stay for the next (K* grows); otherwise each is tried alone.
        reason: Whether to reason step by step.
    """

    name: str
    asked: Question
    golds: tuple[str, ...]
    basis: Basis
    growing: bool
    reason: bool


def question_target(example: Example, rule: Rule, reason: Reason, *, one_hop: bool, max_chars: int) -> Target:
    """The whole question.

    Args:
        example: The training question.
        rule: ``auto`` lets K* grow unless the question is of one hop.
        reason: ``auto`` reasons unless the question is of one hop.
        one_hop: Whether all questions are of which their data set does not say it; one with a single gold quiz is in
            any case.
        max_chars: Longer questions are refused.

    Raises:
        InputError: The question cannot be asked.
    """
    one_hop = one_hop if example.one_hop is None else example.one_hop
    one_hop = one_hop or len(example.quizzes) == 1
    return Target(
        name="the question",
        asked=Question.check(example.question, example.answer_type, example.choices, max_chars),
        golds=example.answers,
        basis="question",
        growing=not one_hop if rule == "auto" else rule == "growing",
        reason=not one_hop if reason == "auto" else bool(reason),
    )


def quiz_targets(example: Example, *, max_chars: int) -> list[Target]:
    """The gold quizzes with gold answers in the places of references, each of one hop.

    Args:
        example: The training question; without gold answers to its quizzes there are none.
        max_chars: Longer quizzes are refused.

    Raises:
        InputError: A quiz cannot be asked.
    """
    if not example.quiz_answers:
        return []
    golds: dict[int, str | None] = dict(enumerate(example.quiz_answers, start=1))
    targets = []
    for quiz in parse(example.quizzes):
        text, gold = resolve(quiz, golds), str(golds[quiz.index])
        if text is None or is_the_question(text, example.question):
            continue
        # Where a quiz asks for the answer to the question, the aliases of that answer are right as well.
        aliases = example.answers if same_answer(gold, example.answers[0]) else ()
        targets.append(
            Target(
                name=f"quiz {quiz.index}",
                asked=Question.check(text, "short", (), max_chars),
                golds=tuple(dict.fromkeys((gold, *aliases))),
                basis="quiz",
                growing=False,
                reason=False,
            )
        )
    return targets
