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

SKILL_TEXTS = {
    "DecomposeQuestion": "2f8c8b82b5eda165",
    "AnswerQuiz": "cc7b841d256832ae",
    "AnswerWithKnowledge": "879d909b1553d5a0",
    "Summarize": "ab06ffe087481cfa",
    "ReasonWithKnowledge": "0c8f3435881601c8",
    "AnswerQuestion": "446cb969c1e6c1d7",
    "ReasonFromMemory": "e47bc90c9a0f967c",
    "ConstructTriples": "341e2bc468aac614",
    "RewriteFollowUp": "ace5beb30e839101",
    "DecideRetrieval": "f09f2e74d8e52fcc",
    "JudgeHeuristicAnswer": "708761d8fe6f6e87",
    "JudgeKnowledge": "080cee22c354aff5",
    "StateConfidence": "a2a7713dfe1a4902",
    "JudgeRelevance": "89ba00bd395a6ef8",
    "JudgeSupport": "488e7ebffddf91bb",
    "RateUsefulness": "1ecd4e33868d4b4d",
    "RephraseQuestion": "6db4248c87082333",
    "RewriteQueries": "849259a480ce4f14",
    "ExpandSubject": "e4a83113aa5b903c",
    "GenerateDocument": "73c0a476584978b2",
    "AnswerWithEvidence": "45fdfda0f99e1ada",
    "ExtendReasoning": "ee64bdc892aeef47",
    "PlanQueryChain": "b6e03de594de8f84",
    "ChooseAction": "75674e2a05e8d583",
    "AnswerFromTrajectory": "e8a835ebed935752",
    "JudgeConsistency": "3e39f5abb3261a22",
    "JudgeUtility": "760ece746956b00f",
    "JudgeUtilities": "90e116db563d6239",
    "DraftQuizzes": "18d1483064b51cb2",
    "AnswerQuizIfSure": "4790748506b36e69",
    "AnswerFromDocuments": "e6bf1de86409db5c",
    "AnswerAndCite": "914806d64b4e82f9",
    "WriteAnswer": "bb380757bb55ebc2",
    "ListItems": "69780b5ad2d6f875",
    "CompareInTable": "24d59d20e8978179",
}
"""By skill, of twenty examples; a new skill is added at the end, since the order decides what is drawn."""
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


@pytest.mark.parametrize("name", SKILLS)
def test_the_examples_of_a_skill(name):
    setting = Setting.draw(World(7, SMALL), random.Random(name), passages=5)
    assert digest([SKILLS[name].make(setting) for _ in range(20)]) == SKILL_TEXTS[name]
    assert list(SKILL_TEXTS) == list(SKILLS)


@pytest.mark.slow
def test_the_cases_of_the_skill_check():
    cases = [check._case(task, SKILLS[task.skill], 2, number) for task in check.TASKS for number in range(2)]
    assert digest(cases) == "4c39404e9928dfa6"
