"""What counts as an answer in a reply."""

from __future__ import annotations

import dspy
import pytest
from dspy.utils import DummyLM
from hypothesis import given
from hypothesis import strategies as st

from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.program import UnansweredError
from keqa.programs.runtime.answered import only_points, says_nothing

EMPTY = [
    "",
    " \n",
    "[]",
    "[]\n\n[ ]",
    "```\n\n```\n[#]\n[[ ##",
    "[[ ## answer ## ]]",
    "[## answer## ]\n[# completed ]",
    "The answer is:",
    "The answer is:\n\n[]\n\nThe answer is:\n\n[]",
    'The answer to the question "What is the angle of the tower of Pisa?" is:',
    "答案是：",
]
TELLING = [
    "+",
    "C:",
    "::",
    "`[]`",
    "{}",
    "[ENIAC]",
    "[## ENIAC]",
    "[1945]",
    "0",
    "no",
    "The answer is:\nMercury",
    "[] Oslo",
    "```\nx = 1\n```",
]


@pytest.mark.parametrize("text", EMPTY)
def test_the_frame_of_an_answer_says_nothing(text):
    assert says_nothing(text)
    assert only_points(text)


@pytest.mark.parametrize("text", TELLING)
def test_symbols_and_short_answers_say_something(text):
    assert not says_nothing(text)
    assert not only_points(text)


@pytest.mark.parametrize("text", ["[1]", "[12]", "[1]\n\n[2]", "The answer is: [1]"])
def test_the_number_of_an_input_only_points_at_it(text):
    assert only_points(text)
    assert not says_nothing(text)


@given(st.text(alphabet="[]#`: \n"), st.sampled_from(["Oslo", "7", "Ågot", "東京"]))
def test_what_stands_on_a_line_of_its_own_is_never_overlooked(frame, word):
    assert not only_points(f"{frame}\n{word}\n{frame.lstrip()}")


@pytest.mark.parametrize("reply", ["[1]", "[]", "The answer is:"])
def test_an_answer_from_passages_that_says_nothing_is_asked_again(scripted, retriever, reply):
    replies = iter([reply, reply, "Oslo"])
    lm, _ = scripted(lambda name, inputs, config: {"answer": next(replies)})
    with dspy.context(lm=lm):
        record = AlwaysRetrieve(retriever("Oslo lies in Norway."))("Where?").record
    assert record.answer == "Oslo"
    assert [(one.cause, one.action) for one in record.degradations] == [("EmptyAnswerError", "asked again")] * 2


def test_a_number_in_brackets_is_an_answer_from_memory():
    with dspy.context(lm=DummyLM([{"answer": "[7]"}])):
        assert ClosedBook()("How many?").answer == "[7]"


def test_no_answer_is_better_than_an_empty_one():
    with (
        dspy.context(lm=DummyLM([{"answer": "The answer is:"}] * 9)),
        pytest.raises(UnansweredError, match="answer failed"),
    ):
        ClosedBook()("Where?")
