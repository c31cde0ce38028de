"""Gold answers of quizzes for the oracle gate and for reports, however a program words its quizzes.

A line of a run file holds those of its examined quizzes, so that reports need nothing but run files.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

from keqa.data.example import Example, as_example
from keqa.data.question import numbered_quizzes, quiz_key, resolved_text
from keqa.optimize.alignment import gold_answers, gold_quizzes
from keqa.programs.records import QuestionRecord

_TESTBED = "testbed"


@dataclass
class OracleLog:
    """The question in work, and by resolved quiz the gold answers that the oracle had; None where it was not asked."""

    example: Example
    answers: dict[str, list[str]] | None = None


_log: ContextVar[OracleLog | None] = ContextVar("keqa_oracle_log", default=None)


@contextmanager
def oracle_log(example: Example) -> Iterator[OracleLog]:
    """Within this context a question is in work: quizzes are its own, and the gold answers that it gives are noted."""
    log = OracleLog(example)
    token = _log.set(log)
    try:
        yield log
    finally:
        _log.reset(token)


def golds_of(examples: Iterable[Any]) -> "_Golds":
    """The gold answers of the quizzes of examples, for `keqa.programs.gates.OracleGate`."""
    golds: dict[str, tuple[str, ...]] = {}
    for example in (as_example(item, unanswerable=True) for item in examples):
        if example.answers:
            golds[quiz_key(example.question)] = example.answers
        golds |= {text: (answer,) for text, _, answer in _gold_facts(example)}
    return _Golds(golds)


def _gold_facts(example: Any) -> Iterator[tuple[str, int, str]]:
    """The plain text of each gold quiz that can be resolved, with its number and its answer."""
    answers = dict(enumerate(example.quiz_answers, start=1))
    for quiz in numbered_quizzes(example.quizzes) if answers else ():
        if (text := resolved_text(quiz, answers)) is not None:
            yield quiz_key(text), quiz.index, answers[quiz.index]


def golds_within(
    example: Example, record: QuestionRecord | None, known: Mapping[str, list[str]] | None = None, dataset: str = ""
) -> dict[str, list[str]] | None:
    """The gold answers of examined quizzes by their text: the testbed's facts, or its own and what the oracle knew."""
    if dataset == _TESTBED:
        found = {text: [gold for gold in _testbed()[1](text) if gold] for text in _examined(record)}
    else:
        asked = ((text, gold_answers(text, example)) for text in _examined(record) if gold_quizzes(example))
        found = {**(known or {}), **{text: list(golds) for text, golds in asked if golds and any(golds)}}
    return {text: golds for text, golds in found.items() if golds} or None


def _examined(record: QuestionRecord | None) -> Iterator[str]:
    """The resolved texts of the quizzes of which there are samples."""
    for quiz in () if record is None else record.quizzes:
        if quiz.resolved is not None and quiz.samples:
            yield quiz.resolved


@cache
def _testbed() -> "tuple[list[Any], _Golds]":
    from keqa.testbed.testbed import Testbed

    world = Testbed()
    questions = [*world.train, *world.dev, *world.test]
    return questions, golds_of(questions)


@cache
def known_on_testbed() -> Mapping[str, bool]:
    """Whether the language model that ships knows the fact that a quiz of the testbed asks for, by its plain text."""
    tiers = ((text, one.tiers[number - 1]) for one in _testbed()[0] for text, number, _ in _gold_facts(one))
    return {text: tier == "often" for text, tier in tiers if tier != "sometimes"}


class _Golds:
    """A quiz without a known gold answer is answered by nothing, so that the oracle has it looked up.

    A quiz in the words of a gold one has its answer, whichever question it is of. In other words it has that of a gold
    quiz of the question in work: those of other questions may resemble it and ask something else.
    """

    def __init__(self, golds: dict[str, tuple[str, ...]]) -> None:
        self._golds = golds

    def __call__(self, quiz: str) -> tuple[str, ...]:
        log = _log.get()
        found = self._golds.get(quiz_key(quiz))
        if found is None and log is not None:
            found = gold_answers(quiz, log.example)
        if log is not None:
            log.answers = (log.answers or {}) | ({} if found is None else {quiz: list(found)})
        return ("",) if found is None else found
