"""The turns before a follow-up question."""

from __future__ import annotations

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.question import MOST_TURNS, Question, turns
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
