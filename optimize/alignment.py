"""Which quizzes of a program have a gold answer, although the program words its quizzes in its own way."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from keqa.data.example import Example
from keqa.data.question import AnswerType, Quiz, references, resolved_text
from keqa.metrics.accuracy import agrees, consistency_label, contains_answer
from keqa.metrics.answers import f1
from keqa.metrics.utility import Correctness
from keqa.programs.records import QuestionRecord, QuizRecord
from keqa.programs.stage import is_the_question

_ALIKE = 0.85
_ALIKE_WITH_NAMES = 0.4


@dataclass(frozen=True)
class Settled:
    """A quiz with its gold answers, and the id of the question that it is of."""

    quiz: QuizRecord
    golds: tuple[str, ...]
    answer_type: AnswerType = "short"
    choices: tuple[str, ...] = ()
    root: str = ""

    @classmethod
    def whole(cls, example: Example) -> Self:
        """A question as its own quiz."""
        return cls(_quiz(example.question), example.answers, example.answer_type, example.choices, example.id)

    @classmethod
    def parts(cls, example: Example) -> list[Self]:
        """The gold quizzes of a question, resolved by gold answers."""
        return [cls(_quiz(quiz), (gold,), root=example.id) for quiz, gold in gold_quizzes(example)]

    def asked(self, name: str = "quiz") -> dict[str, Any]:
        """The inputs of a call that asks it."""
        return {name: self.quiz.resolved, "answer_type": self.answer_type, "choices": list(self.choices)}

    def correctness(self, metric: Correctness, answer: str | None) -> float:
        return metric(answer, self.golds, self.answer_type, self.choices)

    def agrees(self, text: str) -> bool:
        """Whether an answer to the quiz is right, though perhaps in another form."""
        return agrees(text, self.golds, self.answer_type, self.choices)

    def in_form(self, answer: str) -> str:
        """The gold answer or alias that an answer comes closest to; the gold answer itself among equals."""
        return max(self.golds, key=lambda gold: f1(answer, [gold], self.answer_type, self.choices))

    def same(self, first: str, second: str) -> bool | None:
        """Whether two answers mean the same; None where both are wrong, or no judge would be asked."""
        return consistency_label(first, second, self.golds, self.answer_type, self.choices)

    def stated_in(self, passage: str) -> bool | None:
        """Whether a passage states a gold answer; None for a yes, a no or a choice, which no passage has to hold."""
        return contains_answer(passage, self.golds) if self.answer_type == "short" else None


def _quiz(text: str) -> QuizRecord:
    return QuizRecord(index=1, text=text, resolved=text)


def gold_quizzes(example: Example, own: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """The gold decomposition with answers in the places of references, and the gold answers."""
    if len(example.quizzes) != len(example.quiz_answers):
        return []
    answers, found = dict(enumerate(example.quiz_answers, start=1)) | dict(own or {}), []
    for index, text in enumerate(example.quizzes, start=1):
        resolved = resolved_text(Quiz(index, text, references(text)), answers)
        if resolved is None:
            return []
        found.append((resolved, example.quiz_answers[index - 1]))
    return found


def gold_answers(quiz: str, example: Example) -> tuple[str, ...] | None:
    """The gold answers of one quiz of a question, whatever was asked before it; None where none is known.

    A quiz that is the question has the question's, another that of the gold quiz that asks the same.
    """
    if is_the_question(quiz, example.question):
        return example.answers
    number = gold_number(quiz, example)
    return None if number is None else (example.quiz_answers[number - 1],)


def gold_number(quiz: str, example: Example, own: Mapping[int, str] | None = None) -> int | None:
    """The number of the gold quiz that asks the same as a quiz; None where none does."""
    return _like(quiz, gold_quizzes(example, own), {})


def settled_quizzes(example: Example, record: QuestionRecord) -> list[Settled]:
    """The quizzes of a record whose gold answers are known.

    A quiz that is the question has the question's. Another has one where a gold quiz asks the same, and every
    answer that it refers to is right: otherwise it asks about something else.
    """
    alone = record.quizzes[0].resolved if len(record.quizzes) == 1 else None
    if alone and is_the_question(alone, example.question):
        return [replace(Settled.whole(example), quiz=record.quizzes[0], answer_type=record.answer_type)]
    taken: dict[int, Settled] = {}
    right: set[int] = set()
    own: dict[int, str] = {}
    for quiz in record.quizzes:
        if quiz.resolved is None or not right.issuperset(quiz.depends_on):
            continue
        # A right answer may be in another form than the gold one, and the quizzes that refer to it have that form.
        gold = gold_quizzes(example, own)
        number = _like(quiz.resolved, gold, taken)
        if number is None:
            continue
        taken[number] = Settled(quiz, (gold[number - 1][1],), root=example.id)
        if quiz.answer is not None and taken[number].agrees(quiz.answer):
            right.add(quiz.index)
            own[number] = quiz.answer
    return list(taken.values())


def _like(quiz: str, gold: Sequence[tuple[str, str]], taken: Mapping[int, Settled]) -> int | None:
    """The number of the gold quiz that asks the same, among those that are left."""
    texts = {number: text for number, (text, _) in enumerate(gold, start=1) if number not in taken}
    alike = [number for number, text in texts.items() if _asks_the_same(quiz, text)]
    return max(alike, key=lambda number: f1(quiz, [texts[number]]), default=None)


def _asks_the_same(quiz: str, gold: str) -> bool:
    """Whether two quizzes ask the same: every name and number of the gold one is asked about, in similar words."""
    names = {word.lower() for word in re.findall(r"\w+", gold)[1:] if word[0].isupper() or word[0].isdigit()}
    likeness = f1(quiz, [gold])
    if not names:
        return likeness >= _ALIKE
    return names <= set(re.findall(r"\w+", quiz.lower())) and likeness >= _ALIKE_WITH_NAMES
