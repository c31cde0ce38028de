import random

from keqa.testbed.questions import Composed
from keqa.testbed.skills import Setting
from keqa.testbed.skills.answering import explained, summarize
from keqa.testbed.world import SMALL, Fact, World

FIRST, SECOND = Fact("release year", "The Iron Hour"), Fact("release year", "The Quiet Song")


def comparison(text, answer):
    return Composed("comparison", text, (), (FIRST, SECOND), answer, compared=("1989", "1952"))


def test_a_comparison_is_explained_in_the_order_of_time_and_ends_with_the_one_asked_for():
    later = comparison("Which film was released last, The Iron Hour or The Quiet Song?", "The Iron Hour")
    assert explained(later, ["1989", "1952"]) == [
        "The Iron Hour was released in 1989.",
        "The Quiet Song was released in 1952.",
        "1989: The Iron Hour; 1952: The Quiet Song; 1952 is earlier than 1989, so the later is 1989: The Iron Hour.",
    ]
    earlier = comparison("Which film was released first, The Iron Hour or The Quiet Song?", "The Quiet Song")
    assert explained(earlier, ["1989", "1952"])[2].endswith("so the earlier is 1952: The Quiet Song.")


def test_a_setting_may_ask_for_one_shape_of_question():
    rng = random.Random(1)
    examples = [summarize(Setting(World(5, SMALL), rng, shape="yes/no")) for _ in range(20)]
    assert {given["answer_type"] for given, _ in examples} == {"yes/no"}
    assert {made["answer"] for _, made in examples} == {"yes", "no"}
