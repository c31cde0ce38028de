"""References between quizzes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.quiz_references import Quiz, check, parse, plain, references, resolvable, resolve


def test_1_is_not_found_in_10():
    quiz = Quiz(11, "Is #10 older than #1?", references("Is #10 older than #1?"))
    assert quiz.depends_on == (10, 1)
    assert resolve(quiz, {1: "Ann", 10: "Bo"}) == "Is Bo older than Ann?"


def test_an_answer_that_looks_like_a_reference_stays_what_it_is():
    quiz = Quiz(3, "Is #1 or #2 older?", (1, 2))
    assert resolve(quiz, {1: "#2", 2: "Bo"}) == "Is #2 or Bo older?"


def test_full_width_and_spaced_references_are_references():
    assert references("＃1 的妻子是谁? # 2 of#3") == (1, 2, 3)


def test_a_quiz_is_found_again_whatever_its_spaces_and_case():
    assert plain("  Who\n is  ANN? ") == plain("who is Ann?") == "who is ann?"


def test_a_missing_answer_leaves_nothing_to_ask():
    assert resolve(Quiz(2, "When was #1 born?", (1,)), {1: None}) is None
    assert resolve(Quiz(2, "When was #7 born?", (7,)), {}) is None


def test_blank_quizzes_keep_their_number_and_labels_are_dropped():
    quizzes = parse(["1. Who directed Up?", " ", "#3: When was #1 born?", "4.5 million of what?", "2) Who?"])
    assert [(quiz.index, quiz.text) for quiz in quizzes] == [
        (1, "Who directed Up?"),
        (3, "When was #1 born?"),
        (4, "4.5 million of what?"),
        (5, "2) Who?"),
    ]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["Who?", "When was #1 born?"], []),
        (["When was #2 born?", "Who?"], [(1, "LaterReference", False)]),
        (["When was #1 born?"], [(1, "SelfReference", True)]),
        (["Who?", "When was #9 born?"], [(2, "MissingReference", True)]),
        (["When was #0 born?"], [(1, "MissingReference", True)]),
        (
            ["Who is #2?", "Who is #1?"],
            [(1, "LaterReference", False), (1, "ReferenceCycle", True)],
        ),
    ],
)
def test_broken_references_are_named(texts, found):
    assert [(problem.quiz, problem.cause, problem.fatal) for problem in check(parse(texts))] == found


def test_what_leads_to_a_broken_reference_is_not_resolvable():
    assert resolvable(parse(["Who?", "Who is #9?", "When was #2 born?", "Where is #1?"])) == {1, 4}


@given(
    texts=st.lists(
        st.lists(st.sampled_from(["who ", "is ", "#1", "#2", "#3", "#10", "＃2", "# 1 "]), max_size=4).map("".join),
        max_size=4,
    )
)
def test_what_is_resolved_holds_no_reference(texts):
    quizzes = parse(texts)
    sound = resolvable(quizzes)
    fatal = any(problem.fatal for problem in check(quizzes))
    assert fatal == (len(sound) < len(quizzes))
    for quiz in quizzes:
        text = resolve(quiz, dict.fromkeys(sound, "Ann"))
        assert text is None or references(text) == ()
        if quiz.index in sound:
            assert text is not None


def test_a_number_of_thousands_of_digits_refers_to_nothing():
    [quiz] = parse([f"{'1' * 5000}. Where is #{'2' * 5000}?"])
    assert [problem.cause for problem in check([quiz])] == ["MissingReference"]
    assert resolve(quiz, {1: "Oslo"}) is None
