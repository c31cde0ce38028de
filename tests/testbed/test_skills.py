"""What the shipped LM is taught of its own knowledge gives nothing away, and is right for the program that asks."""

import random
from collections import Counter
from dataclasses import replace

import dspy
import pytest

from keqa.signatures.react import AnswerFromTrajectory, ChooseAction, written_trajectory
from keqa.testbed.relations import RELATIONS
from keqa.testbed.skills import SKILLS, Setting
from keqa.testbed.skills.judging import grafted
from keqa.testbed.skills.reflecting import document, expand
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import SMALL, Convention, Fact, World, believed

INTROSPECTIVE = ("DecideRetrieval", "JudgeHeuristicAnswer", "StateConfidence")


@pytest.fixture(scope="module")
def testbed():
    return Testbed()


def unseen(seed):
    return Setting.draw(World(seed, SMALL), random.Random(seed), 5)


def remembering(testbed, seed):
    world = believed(testbed.world, testbed.tiers)
    memory = tuple(testbed.tiers.of("often") + testbed.tiers.of("stale"))
    return replace(unseen(seed), world=world, memory=memory)


def written(world, fact):
    return {world.write(fact, Convention(form)) for form in (0, 1)}


def stated(world, fact):
    """A fact in the sentences that state it."""
    texts = {RELATIONS[fact.relation].states[0].format(r=fact.entity, v=value) for value in written(world, fact)}
    return {text[0].upper() + text[1:] for text in texts}


def test_what_is_mastered_and_certain_follows_from_how_it_was_told(testbed):
    asks = {ask.format(e=f.entity): f for f in testbed.world.facts() for ask in RELATIONS[f.relation].asks}
    held_out = {fact for question in (*testbed.dev, *testbed.test) for fact in question.facts}
    said = {"often": (True, True), "stale": (False, True), "sometimes": (False, False), "never": (False, False)}
    tiers, setting = Counter(), remembering(testbed, 11)
    for _ in range(600):
        inputs, outputs = SKILLS["JudgeKnowledge"].make(setting)
        fact = asks[inputs["quiz"]]
        tier = testbed.tiers.tier[fact]
        assert fact not in held_out
        assert (outputs["mastery"], outputs["certainty"]) == said[tier]
        tiers[tier] += 1
        # A reference tells nothing of the encyclopedia but what the LM knows.
        about = [passage.split(":")[0].lower() == fact.entity.lower() for passage in inputs["reference"]]
        assert tier == "often" or not any(about)
    assert min(tiers.values()) > 20


@pytest.mark.parametrize("name", INTROSPECTIVE[:2])
def test_no_question_of_the_splits_is_asked(testbed, name):
    setting = remembering(testbed, 5)
    asked = {q.question: q.shape for split in (testbed.train, testbed.dev, testbed.test) for q in split}
    for _ in range(400):
        inputs, _outputs = SKILLS[name].make(setting)
        shape = asked.get(inputs["question"])
        # A quiz of a longer question may be a question of its own; what is known is asked quiz by quiz anyway.
        assert shape is None or (shape == "one hop" and inputs.get("heuristic_answer", "").count(". ") > 1)


@pytest.mark.slow
def test_no_text_states_a_fact_that_the_lm_was_not_told(testbed):
    setting = remembering(testbed, 7)
    memory = set(setting.memory)
    hidden = {text for fact in setting.world.facts() if fact not in memory for text in stated(setting.world, fact)}
    for _ in range(300):
        inputs, outputs = document(setting)
        claimed = SKILLS["JudgeHeuristicAnswer"].make(setting)[0]["heuristic_answer"].removesuffix(".").split(". ")
        assert hidden.isdisjoint(part + "." for part in claimed)
        assert not any(sentence in outputs["document"] for sentence in hidden)
        assert all(name.lower() in inputs["question"].lower() for name in outputs["title"].split(" and "))
        for head, relation, value in (triple.split(" | ") for triple in expand(setting)[1]["triples"]):
            fact = Fact(relation, head)
            assert fact in memory or value not in written(setting.world, fact)


@pytest.mark.parametrize("seed", range(40))
def test_no_whole_question_of_the_encyclopedia_is_told_with_its_answer(testbed, seed):
    setting = remembering(testbed, seed)
    world, question = grafted(setting)
    assert question.text not in {asked.question for asked in testbed.test if asked.shape != "one hop"}
    if question.shape == "bridge":
        first, known = question.facts[:2]
        assert first.entity not in setting.world.entities[RELATIONS[first.relation].kind]
        assert (first.entity in question.text, world.values[first]) == (True, known.entity)


def test_a_trajectory_is_written_as_dspy_writes_it():
    turns = [("Hm.", "search", {"query": "Wer é?"}, '["a"]'), ("Well.", "finish", {}, "Completed.")]
    names = ("thought", "tool_name", "tool_args", "observation")
    theirs = {f"{name}_{i}": value for i, turn in enumerate(turns) for name, value in zip(names, turn, strict=True)}
    react = dspy.ReAct("question -> answer", tools=[])
    with dspy.context(adapter=dspy.ChatAdapter()):
        assert written_trajectory(turns) == react._format_trajectory(theirs)
        assert written_trajectory([]) == react._format_trajectory({})
    assert ChooseAction.instructions.startswith(f"{AnswerFromTrajectory.instructions}\n\nYou are an Agent.")
