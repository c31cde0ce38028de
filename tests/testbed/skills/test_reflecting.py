"""What the shipped LM is taught of its own knowledge, of passages and of answers is true in its world."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace

import pytest

from keqa.testbed.questions import SHAPES, QuestionMaker
from keqa.testbed.relations import RELATIONS
from keqa.testbed.rendering import conversation, target
from keqa.testbed.skills import SKILLS, Setting
from keqa.testbed.skills.reflecting import rephrase
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import believed
from keqa.testbed.world import SMALL, World

NAMES = (
    "DecideRetrieval",
    "JudgeHeuristicAnswer",
    "StateConfidence",
    "JudgeRelevance",
    "JudgeSupport",
    "RateUsefulness",
    "RephraseQuestion",
    "RewriteQueries",
)
INTROSPECTIVE = NAMES[:3]


@pytest.fixture(scope="module")
def told():
    testbed = Testbed()
    world = believed(testbed.world, testbed.tiers)
    return testbed, world, tuple(testbed.tiers.of("often") + testbed.tiers.of("stale"))


def unseen(seed: int) -> Setting:
    rng = random.Random(seed)
    return Setting.draw(World(seed, SMALL), rng)


def remembering(told, seed: int) -> Setting:
    _, world, memory = told
    return replace(unseen(seed), world=world, memory=memory)


def test_what_is_mastered_and_certain_follows_from_how_it_was_told(told):
    testbed, _, _ = told
    asks = {ask.format(e=f.entity): f for f in testbed.world.facts() for ask in RELATIONS[f.relation].asks}
    held_out = {fact for question in (*testbed.dev, *testbed.test) for fact in question.facts}
    said = {"often": (True, True), "stale": (False, True), "sometimes": (False, False), "never": (False, False)}
    tiers = Counter()
    setting = remembering(told, 11)
    for _ in range(600):
        inputs, outputs = SKILLS["JudgeKnowledge"].make(setting)
        fact = asks[inputs["quiz"]]
        assert fact not in held_out
        tier = testbed.tiers.tier[fact]
        assert (outputs["mastery"], outputs["certainty"]) == said[tier]
        tiers[tier] += 1
        # A reference tells nothing of the encyclopedia but what the LM knows.
        for passage in inputs["reference"]:
            if passage.split(":")[0].lower() == fact.entity.lower():
                assert tier == "often"
    assert min(tiers.values()) > 20


def test_of_an_unseen_world_a_reference_that_tells_is_all_that_is_known():
    kinds = Counter()
    for number in range(400):
        setting = unseen(number % 15)
        inputs, outputs = SKILLS["JudgeKnowledge"].make(setting)
        assert outputs["mastery"] == outputs["certainty"]
        kinds[outputs["mastery"], bool(inputs["reference"])] += 1
        if outputs["mastery"]:
            subjects = [passage.split(":")[0].lower() for passage in inputs["reference"]]
            assert any(subject in inputs["quiz"].lower() for subject in subjects)
    assert kinds[True, False] == 0
    assert min(kinds[key] for key in ((True, True), (False, True), (False, False))) > 10


def examples(name: str, count: int = 300):
    settings = [unseen(seed) for seed in range(15)]
    return [SKILLS[name].make(settings[number % 15]) for number in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_every_example_renders_short_and_is_drawn_again_from_its_seed(name):
    for seed in range(30):
        inputs, outputs = SKILLS[name].make(unseen(seed))
        assert SKILLS[name].make(unseen(seed)) == (inputs, outputs)
        assert set(inputs) == set(SKILLS[name].signature.input_fields)
        assert set(outputs) == set(SKILLS[name].signature.output_fields)
        assert len(conversation(SKILLS[name].signature, [], inputs)) < 2800
        assert len(target(SKILLS[name].signature, outputs)) < 400


@pytest.mark.parametrize("name", INTROSPECTIVE)
def test_of_an_unseen_world_nothing_is_known(name):
    for _, outputs in examples(name):
        assert outputs in ({"retrieve": True}, {"known": False}) or int(outputs["confidence"]) <= 30


@pytest.mark.parametrize("name", INTROSPECTIVE)
def test_of_what_was_told_some_is_known_and_some_is_not(told, name):
    setting = remembering(told, 3)
    said = Counter(json.dumps(SKILLS[name].make(setting)[1]) for _ in range(300))
    assert len(said) == (7 if name == "StateConfidence" else 2)
    assert min(said.values()) > 5


@pytest.mark.parametrize("name", INTROSPECTIVE[:2])
def test_no_question_of_the_splits_is_asked(told, name):
    testbed, setting = told[0], remembering(told, 5)
    asked = {q.question: q.shape for split in (testbed.train, testbed.dev, testbed.test) for q in split}
    for _ in range(400):
        inputs, _outputs = SKILLS[name].make(setting)
        shape = asked.get(inputs["question"])
        # A quiz of a longer question may be a question of its own; what is known is asked quiz by quiz anyway.
        quiz = shape == "one hop" and inputs.get("heuristic_answer", "").count(". ") > 1
        assert shape is None or quiz


def sentences_of(world: World):
    """Every fact of a world, by each sentence that states it."""
    stated = {}
    for fact in world.facts():
        for form in range(2):
            value = world.write(fact, type(unseen(0).convention)(form))
            text = RELATIONS[fact.relation].states[0].format(r=fact.entity, v=value)
            stated[text[0].upper() + text[1:]] = fact
    return stated


@pytest.mark.slow
def test_a_heuristic_answer_tells_no_fact_that_the_lm_was_not_told(told):
    world, memory = told[1], set(told[2])
    stated, setting, kinds = sentences_of(world), remembering(told, 7), Counter()
    hidden = {text for text, fact in stated.items() if fact not in memory}
    assert hidden
    for _ in range(400):
        inputs, outputs = SKILLS["JudgeHeuristicAnswer"].make(setting)
        parts = [part + "." for part in inputs["heuristic_answer"].removesuffix(".").split(". ")]
        assert hidden.isdisjoint(parts)
        claims = [part for part in parts if " later than " not in part and " earlier than " not in part][:-1]
        right = [part in stated for part in claims]
        kinds[outputs["known"], all(right)] += 1
        # Said of one quiz, "known" needs that quiz's claim alone.
        assert any(right) or not outputs["known"]
    assert kinds[True, True] > 50
    assert kinds[False, False] > 50


def test_a_query_asks_for_each_claim_by_the_names_in_it():
    for inputs, outputs in examples("RewriteQueries"):
        *claims, last = inputs["heuristic_answer"].removesuffix(".").split(". ")
        claims = [claim for claim in claims if not re.search(r"\d is (earlier|later) than", claim)]
        assert last.startswith("The answer is ")
        assert len(claims) == len(outputs["queries"])
        assert not any("#" in query for query in outputs["queries"])


def test_support_is_told_by_the_passage():
    said = Counter()
    for inputs, outputs in examples("JudgeSupport"):
        said[outputs["support"]] += 1
        if outputs["support"] == "fully":
            assert inputs["answer"].split()[-1] in inputs["passage"]
            assert inputs["passage"].split(":")[0].lower() in inputs["question"].lower()
    assert min(said["fully"], said["partially"], said["no"]) > 50


def test_answers_read_off_another_passage_are_not_supported():
    read_off = [
        inputs
        for inputs, outputs in examples("JudgeSupport")
        if outputs["support"] == "no" and re.search(rf"\b{re.escape(inputs['answer'])}\b", inputs["passage"])
    ]
    assert len(read_off) > 10


def test_a_relevant_passage_is_about_somebody_that_the_question_names():
    for inputs, outputs in examples("JudgeRelevance"):
        subject = inputs["passage"].split(":")[0]
        if outputs["relevant"]:
            assert subject.lower() in inputs["question"].lower()


def test_usefulness_is_told_by_the_kind_of_the_answer():
    polar = ("Are", "Were", "Do")
    said = examples("RateUsefulness")
    for inputs, outputs in said:
        if inputs["question"].split()[0] in polar:
            assert (outputs["usefulness"] == 5) == (inputs["answer"] in ("yes", "no"))
        if inputs["answer"] == "unknown":
            assert outputs["usefulness"] == 1
    assert {outputs["usefulness"] for _, outputs in said} == {1, 5}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_rephrased_question_is_another_and_back(shape):
    maker = QuestionMaker(World(4, SMALL), random.Random(4))
    for _ in range(200):
        question = maker.draw(shape)
        other = rephrase(question)
        assert other != question.text
        if shape != "yes/no":
            assert rephrase(replace(question, text=other)) == question.text
        else:
            assert sorted(other.split()) == sorted(question.text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who was born first, Ann Lee or Bo Ray?", "Who was born earlier, Ann Lee or Bo Ray?"),
        ("Who was born last, Ann Lee or Bo Ray?", "Who was born later, Ann Lee or Bo Ray?"),
    ],
)
def test_a_comparison_keeps_its_direction(text, expected):
    question = QuestionMaker(World(4, SMALL), random.Random(4)).draw("comparison")
    assert rephrase(replace(question, text=text)) == expected


def test_a_question_in_no_known_wording_is_refused():
    question = QuestionMaker(World(4, SMALL), random.Random(4)).draw("one hop")
    with pytest.raises(ValueError, match="wording"):
        rephrase(replace(question, text="Tell me about it"))
