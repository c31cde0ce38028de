"""Which quizzes have a gold answer, and in which form an answer is learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures.marton import MARTON

from keqa.data.example import Example
from keqa.optimize.alignment import best_gold, gold_answers, gold_quizzes, settled_quizzes
from keqa.programs.records import QuestionRecord, QuizRecord

QUESTION = "What is the birth date of the mayor of Marton?"
EXAMPLE = replace(MARTON, question=QUESTION, answers=("1 September 1926", "1926-09-01"))


def record(*quizzes: tuple[str, str, str | None, list[int]], question: str = EXAMPLE.question) -> QuestionRecord:
    return QuestionRecord(
        question=question,
        quizzes=[
            QuizRecord(index=number, text=text, resolved=resolved, answer=answer, depends_on=depends_on)
            for number, (text, resolved, answer, depends_on) in enumerate(quizzes, start=1)
        ],
    )


def test_the_closest_alias_is_the_form_to_learn():
    assert best_gold("1926-09-01", EXAMPLE.answers) == "1926-09-01"
    assert best_gold("September 1926", EXAMPLE.answers) == "1 September 1926"
    assert best_gold("nonsense", EXAMPLE.answers) == "1 September 1926"


def test_gold_quizzes_are_resolved_by_gold_answers():
    assert gold_quizzes(EXAMPLE) == [
        ("Who governs Marton?", "Robert Torman"),
        ("When was Robert Torman born?", "1 September 1926"),
    ]
    assert gold_quizzes(EXAMPLE, {1: "Torman"})[1][0] == "When was Torman born?"
    assert gold_quizzes(Example("e", "Who?", ("x",), quizzes=("Who?",))) == []


def test_quizzes_in_other_words_and_forms_are_settled():
    told = record(
        ("Who is the mayor who governs Marton?", "Who is the mayor who governs Marton?", "Torman", []),
        ("When was #1 born?", "When was Torman born?", None, [1]),
    )
    settled = settled_quizzes(EXAMPLE, told)
    assert [(one.quiz.index, one.golds) for one in settled] == [(1, ("Robert Torman",)), (2, ("1 September 1926",))]
    assert settled[1].agrees("1926")


def test_a_quiz_that_refers_to_a_wrong_answer_asks_about_something_else():
    told = record(
        ("Who governs Marton?", "Who governs Marton?", "Ada Elquist", []),
        ("When was #1 born?", "When was Ada Elquist born?", "1926", [1]),
    )
    assert [one.quiz.index for one in settled_quizzes(EXAMPLE, told)] == [1]


def test_a_quiz_about_another_name_has_no_gold_answer():
    told = record(("Who governs Marmouth?", "Who governs Marmouth?", "Torman", []), ("Blocked #9", None, None, [9]))
    assert settled_quizzes(EXAMPLE, told) == []


def test_a_quiz_that_is_the_question_has_its_answers():
    told = record((EXAMPLE.question, EXAMPLE.question, "1926", []))
    (one,) = settled_quizzes(EXAMPLE, told)
    assert one.golds == EXAMPLE.answers


@pytest.mark.parametrize(
    ("quiz", "golds"),
    [
        ("Who governs Marton?", ("Robert Torman",)),
        ("Who is the mayor who governs Marton?", ("Robert Torman",)),
        ("When was the mayor Robert Torman born?", ("1 September 1926",)),
        ("what is the birth date of the mayor of marton", EXAMPLE.answers),
        ("When was Ada Elquist born?", None),
        ("Who governs Marmouth?", None),
    ],
)
def test_the_gold_answers_of_one_quiz_by_itself(quiz, golds):
    assert gold_answers(quiz, EXAMPLE) == golds
    assert gold_answers(quiz, Example("e", "Who?", ("x",))) is None


def test_a_gold_quiz_settles_one_quiz_only():
    told = record(("Who governs Marton?", "Who governs Marton?", "x", []), ("Who governs Marton?",) * 2 + ("y", []))
    assert [one.quiz.index for one in settled_quizzes(EXAMPLE, told)] == [1]
