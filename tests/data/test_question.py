"""A question with the turns before it, and references between quizzes."""

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.question import (
    MOST_TURNS,
    Question,
    Quiz,
    broken_references,
    numbered_quizzes,
    quiz_key,
    references,
    resolvable,
    resolved_text,
    turns,
)
from keqa.errors import InputError


@pytest.mark.parametrize(
    "history",
    [
        ["Who wrote it? Ann"],
        [("Who wrote it?", "Ann")],
        [{"question": "Who wrote\n it?", "answer": "Ann"}],
        dspy.History(messages=[{"question": "Who wrote it?", "answer": "Ann"}]),
        ("", "Who wrote it?\x00 Ann", "  "),
    ],
)
def test_each_form_of_history_is_the_same_line(history):
    assert turns(history) == ["Who wrote it? Ann"]


def test_a_question_may_be_without_an_answer():
    assert turns([{"question": "Who?"}, ("Where?", None), ("When?", "")]) == ["Who?", "Where?", "When?"]


def test_the_last_turns_are_read_and_long_ones_cut():
    found = turns([(f"q{number}", "a" * 10_000) for number in range(50)])
    assert len(found) == MOST_TURNS
    assert found[-1] == "q49 " + "a" * 500


@pytest.mark.parametrize(
    "history", ["Who?", None, 3, {"question": "Who?"}, [3], [("a", "b", "c")], [{"answer": "Ann"}], [("Who?", 3)]]
)
def test_what_is_no_history_is_refused(history):
    with pytest.raises(InputError, match="history"):
        turns(history)
    with pytest.raises(InputError, match=r"must be a line, .* or a mapping with question and answer"):
        turns([{"role": "user", "content": "Who?"}])


@given(st.lists(st.one_of(st.text(), st.tuples(st.text(min_size=1), st.text())), max_size=20))
def test_lines_hold_no_line_break(history):
    try:
        found = turns(history)
    except InputError:
        return
    assert len(found) <= MOST_TURNS
    assert all(line and line == " ".join(line.split()) for line in found)


@pytest.mark.parametrize("choices", [["x"] * 20_000, ["x"] * 257, ["x" * 60_000]])
def test_a_choice_has_so_many_options(choices):
    with pytest.raises(InputError, match="at most 256 with 50,000 are allowed"):
        Question.check("Which?", "choice", choices, 10_000)
    assert len(Question.check("Which?", "choice", ["x"] * 256, 10_000).choices) == 256


@pytest.mark.parametrize(("given", "found"), [("short", "choice"), (None, "choice"), ("yes/no", "yes/no")])
def test_choices_alone_say_that_it_is_a_choice(given, found):
    assert Question.check("Which?", given, ["a", "b"], 100).answer_type == found


def test_references_are_resolved_in_one_pass_and_only_where_there_is_an_answer():
    quiz = Quiz(11, "Is #10 older than #1?", references("Is #10 older than #1?"))
    assert quiz.depends_on == (10, 1)
    # An answer that looks like a reference stays what it is.
    assert resolved_text(quiz, {1: "#2", 2: "Cy", 10: "Bo"}) == "Is Bo older than #2?"
    named = Quiz(2, "Who leads #1?", (1,))
    assert [resolved_text(named, {1: one}) for one in ("Isburg.", "伊斯堡。", "Acme Inc.", "the U.S.", "...")] == [
        f"Who leads {one}?" for one in ("Isburg", "伊斯堡", "Acme Inc.", "the U.S.", "...")
    ]
    assert resolved_text(Quiz(2, "When was #1 born?", (1,)), {1: None}) is None
    assert resolved_text(Quiz(2, "When was #7 born?", (7,)), {}) is None
    assert references("＃1 的妻子是谁? # 2 of#3") == (1, 2, 3)
    assert quiz_key("  Who\n is  ANN? ") == quiz_key("who is Ann?") == "who is ann?"


def test_blank_quizzes_keep_their_number_and_labels_are_dropped():
    quizzes = numbered_quizzes(["1. Who directed Up?", " ", "#3: When was #1 born?", "4.5 million of what?", "2) Who?"])
    assert [(quiz.index, quiz.text) for quiz in quizzes] == [
        (1, "Who directed Up?"),
        (3, "When was #1 born?"),
        (4, "4.5 million of what?"),
        (5, "2) Who?"),
    ]


@pytest.mark.parametrize(
    "reference",
    [
        *("[1]", "{1}", "<answer 1>", "{answer_1}", "[ANSWER FROM 1]", "[Q1]", "[the answer to #1]", "{{answer1}}"),
        *("the answer to question 1", "(answer of quiz 1)", "(answer to Q1)", "the answer from step 1"),
    ],
)
def test_a_reference_may_be_written_otherwise(reference):
    texts = [f"Who was {reference}?", f"Where was {reference} born?"]
    assert [quiz.text for quiz in numbered_quizzes(texts, "Where?")] == [texts[0], "Where was #1 born?"]
    # In a benchmark's own quizzes, and where the question says the same, it is none.
    assert [quiz.text for quiz in numbered_quizzes(texts)] == texts
    assert numbered_quizzes(texts, f"What is {reference.upper()}?")[1].text == texts[1]
    assert numbered_quizzes(["Who?", "What is a[1] or (1)?"], "")[1].text == "What is a[1] or (1)?"


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
    assert [
        (problem.quiz, problem.cause, problem.fatal) for problem in broken_references(numbered_quizzes(texts))
    ] == found


def test_what_leads_to_a_broken_reference_is_not_resolvable():
    assert resolvable(numbered_quizzes(["Who?", "Who is #9?", "When was #2 born?", "Where is #1?"])) == {1, 4}


@given(
    texts=st.lists(
        st.lists(st.sampled_from(["who ", "is ", "#1", "#2", "#3", "#10", "＃2", "# 1 "]), max_size=4).map("".join),
        max_size=4,
    )
)
def test_what_is_resolved_holds_no_reference(texts):
    quizzes = numbered_quizzes(texts)
    sound = resolvable(quizzes)
    fatal = any(problem.fatal for problem in broken_references(quizzes))
    assert fatal == (len(sound) < len(quizzes))
    for quiz in quizzes:
        text = resolved_text(quiz, dict.fromkeys(sound, "Ann"))
        assert text is None or references(text) == ()
        if quiz.index in sound:
            assert text is not None


def test_a_number_of_thousands_of_digits_refers_to_nothing():
    [quiz] = numbered_quizzes([f"{'1' * 5000}. Where is #{'2' * 5000}?"])
    assert [problem.cause for problem in broken_references([quiz])] == ["MissingReference"]
    assert resolved_text(quiz, {1: "Oslo"}) is None
