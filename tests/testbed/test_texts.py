"""The texts of the encyclopedia and of the training stay byte for byte: the shipped model knows exactly these."""

import hashlib
import random

import pytest

from keqa.testbed import check, words
from keqa.testbed.relations import RELATIONS
from keqa.testbed.rendering import all_pieces
from keqa.testbed.sampling import Stream
from keqa.testbed.skills import SKILLS, Setting
from keqa.testbed.testbed import Testbed, WorldSettings
from keqa.testbed.world import SMALL, World

STREAM = {
    0.0: "e1c26650e8eb97ed",
    0.1: "fb4a6225f30d9c24",
    0.3: "f4654d1ab64acbcd",
    0.55: "016e5b0f7b2863b6",
    0.7: "237c7cfa38c8810a",
    0.9: "12b01bfd474fd2be",
}
"""By progress, of what is drawn then."""


def digest(value):
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


@pytest.fixture(scope="module")
def testbed():
    return Testbed()


def test_the_encyclopedia_and_its_questions(testbed):
    assert digest(testbed.passages) == "484006715b9a8224"
    assert digest((testbed.train, testbed.dev, testbed.test)) == "5973b30092454754"
    assert digest(testbed.more_questions(50, 3)) == "53a381a7e9f075b4"
    assert digest(Testbed(WorldSettings(known=0.5, distractors=2)).train) == "9e3f14bed3397262"
    assert digest(sorted(testbed.tiers.tier.items())) == "25d212e89b66bd2c"
    assert testbed.stale_sources == ("Gazette", "Herald")


def test_the_words_and_wordings():
    assert digest(list(RELATIONS.items())) == "0e6026b846dc9735"
    assert (
        digest([(name, value) for name, value in sorted(vars(words).items()) if name.isupper()]) == "1718b4b15cc3c365"
    )


def test_the_pieces_of_prompts_that_are_tokens():
    assert digest(sorted(all_pieces())) == "444600658e3c9499"


@pytest.mark.slow
def test_the_stream_of_training(testbed):
    stream = Stream(testbed, seed=5)
    assert {at: digest([stream.draw(at) for _ in range(150)]) for at in STREAM} == STREAM


def test_the_examples_of_all_skills():
    """A new skill is added at the end, since the order decides what is drawn."""
    settings = {name: Setting.draw(World(7, SMALL), random.Random(name), passages=5) for name in SKILLS}
    drawn = {name: [SKILLS[name].make(setting) for _ in range(20)] for name, setting in settings.items()}
    assert digest(drawn) == "d95ef55db585e790"


@pytest.mark.slow
def test_the_cases_of_the_skill_check():
    cases = [check._case(task, SKILLS[task.skill], 2, number) for task in check.TASKS for number in range(2)]
    assert digest(cases) == "4c39404e9928dfa6"
