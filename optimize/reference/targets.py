"""What is answered to label the passages of one training question: the question itself, and its gold quizzes."""

from __future__ import annotations

from dataclasses import dataclass

from keqa.data.example import Example
from keqa.data.question import Question
from keqa.data.quiz_references import parse, resolve
from keqa.metrics.answers import same_answer
from keqa.optimize.reference.entries import Basis
from keqa.programs.stages.decomposition import is_the_question


@dataclass(frozen=True)
class Target:
    """What is to be answered, and how.

    Attributes:
        name: For messages.
        asked: Question or resolved quiz.
        golds: Its gold answers.
        basis: Which of the two it is.
        one_hop: Whether it takes a single step: then each passage is tried alone, and it is answered at once. Otherwise
            helpful passages stay for the next (K* grows), and it is answered by reasoning step by step.
    """

    name: str
    asked: Question
    golds: tuple[str, ...]
    basis: Basis
    one_hop: bool


def question_target(example: Example, *, one_hop: bool, max_chars: int) -> Target:
    """The whole question.

    Args:
        example: The training question.
        one_hop: Whether all questions are of which their data set does not say it; one with a single gold quiz is in
            any case.
        max_chars: Longer questions are refused.

    Raises:
        InputError: The question cannot be asked.
    """
    one_hop = one_hop if example.one_hop is None else example.one_hop
    return Target(
        name="the question",
        asked=Question.check(example.question, example.answer_type, example.choices, max_chars),
        golds=example.answers,
        basis="question",
        one_hop=one_hop or len(example.quizzes) == 1,
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
                one_hop=True,
            )
        )
    return targets
