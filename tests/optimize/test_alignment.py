"""Which quizzes have a gold answer, and in which form an answer is learned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures.marton import MARTON

from keqa.data.example import Example
from keqa.optimize.alignment import Settled, gold_answers, gold_quizzes, settled_quizzes
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
    assert Settled.whole(EXAMPLE).in_form("1926-09-01") == "1926-09-01"
    assert Settled.whole(EXAMPLE).in_form("September 1926") == "1 September 1926"
    assert Settled.whole(EXAMPLE).in_form("nonsense") == "1 September 1926"


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


@pytest.mark.parametrize(
    ("quiz", "gold", "same"),
    [
        # Every name and number of the gold quiz, in words that are alike in part.
        ("Marton Kelford", "Is Marton Kelford?", True),
        ("Who won at Marton in 1926?", "Who won in 1926?", True),
        ("Who won in 1930?", "Who won in 1926?", False),
        ("Who governs marton?", "Who governs Marton?", True),
        ("Name every mayor known of old Marton since its very founding", "Who governs Marton?", False),
        ("Who sails to Marton?", "Who governs Marton?", True),
        # Without a name nearly every word: one of seven may differ, one of six may not.
        ("Who made most of their old films", "Who made most of their old songs", True),
        ("Who made most of old films", "Who made most of old songs", False),
    ],
)
def test_what_asks_the_same(quiz, gold, same):
    example = Example("e", "What of it?", ("x",), quizzes=(gold,), quiz_answers=("y",))
    assert gold_answers(quiz, example) == (("y",) if same else None)


def test_of_several_gold_quizzes_the_closest_is_meant():
    quizzes = ("Who sails to Marton?", "Who governs Marton?", "Who lives at Marton?")
    example = Example("e", "What of it?", ("x",), quizzes=quizzes, quiz_answers=("a", "b", "c"))
    assert [gold_answers(quiz, example) for quiz in quizzes] == [("a",), ("b",), ("c",)]


def test_gold_quizzes_that_do_not_hold_together_are_none():
    assert gold_quizzes(replace(EXAMPLE, quiz_answers=("x",))) == []
    assert gold_quizzes(replace(EXAMPLE, quizzes=("Who governs Marton?", "When was #3 born?"))) == []


def test_a_choice_that_is_the_question_is_settled_as_one():
    example = Example("c", "Which is it?", ("Rome", "B"), "choice", ("Oslo", "Rome"))
    quiz = QuizRecord(index=1, text=example.question, resolved=example.question, answer="b")
    story = QuestionRecord(question=example.question, answer_type="choice", choices=["Oslo", "Rome"], quizzes=[quiz])
    (one,) = settled_quizzes(example, story)
    assert (one.quiz, one.golds, one.answer_type, one.choices) == (quiz, ("Rome", "B"), "choice", ("Oslo", "Rome"))
    assert (one.agrees("b"), one.agrees("a")) == (True, False)
    # One of several quizzes is not the question, though it reads like it.
    twice = story.model_copy(update={"quizzes": [quiz, quiz.model_copy(update={"index": 2})]})
    assert settled_quizzes(example, twice) == []


def test_the_form_of_another_type_is_compared_as_its_type():
    assert Settled(None, ("Oslo", "Rome"), "choice", ("Oslo", "Rome")).in_form("b") == "Rome"
    assert Settled(None, ("yes", "no"), "yes/no").in_form("No, never") == "no"


def test_what_was_not_asked_or_not_answered_settles_nothing_further():
    told = record(
        ("Who governs Marton?", "Who governs Marton?", None, []),
        ("When was #1 born?", "When was Robert Torman born?", "1926", [1]),
    )
    assert [one.quiz.index for one in settled_quizzes(EXAMPLE, told)] == [1]
    blocked = record(("Gone", None, None, []), ("Who governs Marton?", "Who governs Marton?", "Torman", []))
    assert [one.quiz.index for one in settled_quizzes(EXAMPLE, blocked)] == [2]
    # An answer that refers to the second gold quiz takes the place of that one.
    swapped = record(
        ("When was Robert Torman born?", "When was Robert Torman born?", "1926", []),
        ("Who governs Marton?", "Who governs Marton?", "Torman", []),
    )
    assert [one.golds for one in settled_quizzes(EXAMPLE, swapped)] == [("1 September 1926",), ("Robert Torman",)]
