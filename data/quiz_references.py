"""References between quizzes: ``#2`` stands for the answer to quiz 2 (KEQA, section 3.3, quiz generation)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

# All digits are taken, so #1 is never found in #10. The sign and its number may be full-width or apart.
_REFERENCE = re.compile(r"[#＃]\s*(\d+)")
_MOST_DIGITS = 18
_LABEL = re.compile(r"^\s*(?:(?:[#＃]|Q(?:uiz)?\s*)?(\d+)\s*(?:[:.)]\s+|[、：]\s*))(?=\S)", re.IGNORECASE)


@dataclass(frozen=True)
class Quiz:
    """A quiz as decomposed: its number from 1, and the numbers that its text refers to, in order of appearance."""

    index: int
    text: str
    depends_on: tuple[int, ...] = ()


@dataclass(frozen=True)
class BrokenReference:
    """A reference that does not hold, and in which quiz.

    Its cause is ``MissingReference``, ``SelfReference``, ``ReferenceCycle`` or ``LaterReference``. Where it is fatal
    the quiz cannot be resolved; a reference to a later quiz only changes the order.
    """

    quiz: int
    cause: str
    message: str
    fatal: bool


def references(text: str) -> tuple[int, ...]:
    """The numbers that a text refers to, each once, in order of appearance."""
    return tuple(dict.fromkeys(map(_number, _REFERENCE.findall(text))))


def _number(digits: str) -> int:
    """A number as written; Python reads none of thousands of digits, and no quiz has one of more than a few."""
    return int(digits[:_MOST_DIGITS])


def plain(text: str) -> str:
    """A quiz's text, by which it is found again: spaces and case do not matter."""
    return " ".join(text.split()).casefold()


def parse(texts: Sequence[str]) -> list[Quiz]:
    """Number the quizzes of a decomposition.

    Blank ones are left out and keep their number, so that references to the others still hold. A label that repeats the
    quiz's own number ("2. Who ...", "#2: Who ...") is dropped.
    """
    quizzes = []
    for index, raw in enumerate(texts, start=1):
        label = _LABEL.match(raw)
        text = (raw[label.end() :] if label and _number(label[1]) == index else raw).strip()
        if text:
            quizzes.append(Quiz(index, text, references(text)))
    return quizzes


def check(quizzes: Sequence[Quiz]) -> list[BrokenReference]:
    """Find the broken references; none is fatal exactly when every quiz can come after those that it refers to."""
    numbers = {quiz.index for quiz in quizzes}
    broken = []
    for quiz in quizzes:
        for number in quiz.depends_on:
            if number == quiz.index:
                found = ("SelfReference", f"refers to itself, #{number}", True)
            elif number not in numbers:
                found = ("MissingReference", f"refers to #{number}, which is not there", True)
            elif number > quiz.index:
                found = ("LaterReference", f"refers to #{number}, which comes later", False)
            else:
                continue
            broken.append(BrokenReference(quiz.index, *found))
    graph = {quiz.index: {n for n in quiz.depends_on if n in numbers and n != quiz.index} for quiz in quizzes}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        text = " -> ".join(f"#{number}" for number in error.args[1])
        broken.append(
            BrokenReference(min(error.args[1]), "ReferenceCycle", f"quizzes wait for each other: {text}", True)
        )
    return broken


def resolvable(quizzes: Sequence[Quiz]) -> set[int]:
    """Numbers of the quizzes whose references, and theirs in turn, all lead to quizzes that are there."""
    sound: set[int] = set()
    for _ in quizzes:
        sound |= {quiz.index for quiz in quizzes if sound.issuperset(quiz.depends_on)}
    return sound


def resolve(quiz: Quiz, answers: Mapping[int, str | None]) -> str | None:
    """Put answers in the places of references, in one pass, so that a ``#1`` within an answer stays what it is."""
    if any(answers.get(number) is None for number in quiz.depends_on):
        return None
    return _REFERENCE.sub(lambda match: str(answers[_number(match[1])]), quiz.text)
