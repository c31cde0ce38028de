"""What is answered to label the passages of a training question."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures.marton import MARTON

from keqa.data.example import Example
from keqa.data.question import Question
from keqa.errors import InputError
from keqa.optimize.reference import Target, _Labels, question_target, quiz_targets
from keqa.programs.runtime.errors import CallError
from keqa.retrievers.base import Passage

CHOICE = Example("c", "Which is it?", ("Rome", "B"), "choice", ("Oslo", "Rome"))
ONE_HOP = Example("o", "Who governs Marton?", ("Bo",), quizzes=("Who governs Marton?",), quiz_answers=("Bo",))


def test_the_question_is_asked_as_it_is():
    target = question_target(CHOICE, one_hop=False, max_chars=12)
    asked = Question("Which is it?", "choice", ["Oslo", "Rome"])
    assert target == Target("the question", asked, ("Rome", "B"), "question", one_hop=False)
    with pytest.raises(InputError, match="12 characters; at most 11"):
        question_target(CHOICE, one_hop=False, max_chars=11)


@pytest.mark.parametrize(
    ("example", "one_hop", "expected"),
    [
        (MARTON, False, False),
        (MARTON, True, True),
        (ONE_HOP, False, True),
        (CHOICE, False, False),
        (replace(MARTON, one_hop=True), False, True),
        (replace(MARTON, one_hop=False), True, False),
    ],
)
def test_a_question_is_of_one_hop_where_its_data_set_or_its_quizzes_say_so(example, one_hop, expected):
    assert question_target(example, one_hop=one_hop, max_chars=100).one_hop == expected


def test_quizzes_are_asked_with_gold_answers_in_the_places_of_references():
    first, second = quiz_targets(replace(MARTON, answers=("1 September 1926", "1926")), max_chars=100)
    asked = Question("Who governs Marton?", "short", [])
    assert first == Target("quiz 1", asked, ("Robert Torman",), "quiz", one_hop=True)
    # It asks for the answer to the question, whose aliases are right as well, each once.
    asked = Question("When was Robert Torman born?", "short", [])
    assert second == Target("quiz 2", asked, ("1 September 1926", "1926"), "quiz", one_hop=True)


def test_a_quiz_that_is_the_question_or_refers_to_nothing_is_no_target():
    assert quiz_targets(ONE_HOP, max_chars=100) == quiz_targets(CHOICE, max_chars=100) == []
    rest = replace(MARTON, quizzes=(MARTON.question, "Who governs Marton?"), quiz_answers=("1926", "Bo"))
    assert [(one.name, one.golds) for one in quiz_targets(rest, max_chars=100)] == [("quiz 2", ("Bo",))]
    lost = replace(MARTON, quizzes=("When was #9 born?", "Who governs Marton?"), quiz_answers=("1926", "Bo"))
    assert [one.name for one in quiz_targets(lost, max_chars=100)] == ["quiz 2"]
    with pytest.raises(InputError, match="at most 10"):
        quiz_targets(MARTON, max_chars=10)


@pytest.mark.parametrize(
    ("score", "without", "label", "helped"), [(1.0, 0.5, 1, True), (0.5, 0.5, 0, False), (0.25, 0.5, -1, False)]
)
def test_a_passage_helps_where_the_answer_is_better_with_it(score, without, label, helped):
    labels, passage = _Labels(), Passage("p", "Marton", "A town.")
    assert labels.add(passage, score, without) is helped
    [(of, difference, found)] = labels.found
    assert (of, found) == (passage, label)
    assert (difference > 0, difference < 0) == (label == 1, label == -1)
    assert (labels.errors, labels.lost.total()) == ([], 0)


def test_a_passage_without_an_answer_helps_nothing_and_is_counted():
    labels, errors = _Labels(), [CallError("LMServerError", "down"), CallError("LMTimeoutError", "slow")]
    assert [labels.add(Passage("p", "Marton", "A town."), error, 0.0) for error in (*errors, errors[0])] == [False] * 3
    assert (labels.found, labels.errors) == ([], [*errors, errors[0]])
    assert labels.lost == {"LMServerError": 2, "LMTimeoutError": 1}
