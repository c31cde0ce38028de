"""Examples of reasoning and searching by turns: right for the program, and true to what the LM may know."""

from __future__ import annotations

import random
import re

import dspy
import pytest

from keqa.programs.baselines.reading import concluded, first_sentence
from keqa.signatures import AnswerFromTrajectory, ChooseAction
from keqa.signatures.baselines import UNSOLVED
from keqa.signatures.react import written_trajectory
from keqa.testbed.relations import RELATIONS
from keqa.testbed.skills.interleaving import act, conclude, extend, grafted, plan
from keqa.testbed.skills.registry import Setting
from keqa.testbed.testbed import Testbed
from keqa.testbed.tiers import believed
from keqa.testbed.world import SMALL, World


@pytest.fixture(scope="module")
def testbed():
    return Testbed()


def unseen(seed):
    rng = random.Random(seed)
    return Setting.draw(World(seed + 1, SMALL), rng, 3)


def remembering(testbed, seed):
    world = believed(testbed.world, testbed.tiers)
    memory = tuple(testbed.tiers.of("often") + testbed.tiers.of("stale"))
    return Setting(world, random.Random(seed), memory=memory)


def test_a_trajectory_is_written_as_dspy_writes_it():
    turns = [("Hm.", "search", {"query": "Wer é?"}, '["a"]'), ("Well.", "finish", {}, "Completed.")]
    names = ("thought", "tool_name", "tool_args", "observation")
    theirs = {f"{name}_{i}": value for i, turn in enumerate(turns) for name, value in zip(names, turn, strict=True)}
    react = dspy.ReAct("question -> answer", tools=[])
    with dspy.context(adapter=dspy.ChatAdapter()):
        assert written_trajectory(turns) == react._format_trajectory(theirs)
        assert written_trajectory([]) == react._format_trajectory({})
    assert written_trajectory(turns[1:], 1).startswith("[[ ## thought_1 ## ]]\nWell.")


def test_the_agents_prompts_are_told_apart_by_name_and_instructions():
    assert (ChooseAction.__name__, AnswerFromTrajectory.__name__) == ("ChooseAction", "AnswerFromTrajectory")
    assert ChooseAction.instructions.startswith(f"{AnswerFromTrajectory.instructions}\n\nYou are an Agent.")


@pytest.mark.parametrize("seed", range(40))
def test_an_action_searches_or_finishes_and_reads_back(seed):
    inputs, outputs = act(unseen(seed))
    read = dspy.ChatAdapter().parse(
        ChooseAction, dspy.ChatAdapter().format_assistant_message_content(ChooseAction, outputs)
    )
    assert read == outputs
    if outputs["next_tool_name"] == "finish":
        assert outputs["next_tool_args"] == {}
        assert "observation_0" in inputs["trajectory"]
    else:
        assert outputs["next_tool_args"]["query"].endswith("?")
        assert outputs["next_tool_args"]["query"] not in inputs["trajectory"]


@pytest.mark.parametrize("seed", range(20))
def test_a_trajectory_ends_with_its_finish_and_holds_the_answer(seed):
    inputs, outputs = conclude(unseen(seed))
    assert inputs["trajectory"].endswith("Completed.")
    if inputs["answer_type"] == "short":
        assert outputs["answer"].split()[-1] in inputs["trajectory"] + inputs["question"]


@pytest.mark.parametrize("seed", range(40))
def test_a_thought_is_one_sentence_as_the_programs_cut_it(seed):
    inputs, outputs = extend(unseen(seed))
    assert first_sentence(outputs["thought"]) == outputs["thought"]
    assert all(concluded(thought) is None for thought in inputs["thoughts"])
    answer = concluded(outputs["thought"])
    if answer is not None and inputs["answer_type"] == "short":
        told = " ".join(inputs["thoughts"])
        assert answer.split()[-1] in told + inputs["question"]


@pytest.mark.parametrize("seed", range(40))
def test_where_passages_are_given_they_tell_the_next_fact(seed):
    inputs, outputs = extend(unseen(seed))
    stated = outputs["thought"].removesuffix(".")
    if inputs["passages"] and concluded(outputs["thought"]) is None and " than " not in stated:
        words = set(re.findall(r"\w+", " ".join(inputs["passages"])))
        assert len(set(re.findall(r"\w+", stated)) & words) >= 2


@pytest.mark.parametrize("seed", range(30))
def test_in_an_unseen_world_every_query_is_unsolved(seed):
    inputs, outputs = plan(unseen(seed))
    assert set(outputs["answers"]) <= {UNSOLVED}
    assert len(outputs["answers"]) == len(outputs["queries"])
    assert not {query for query in outputs["queries"] if any(told.startswith(query) for told in inputs["verified"])}
    assert "#" not in "".join(outputs["queries"] + inputs["verified"])


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_answers_what_the_lm_was_told_and_nothing_else(testbed, seed):
    setting = remembering(testbed, seed)
    _, outputs = plan(setting)
    known = {
        ask.format(e=fact.entity): setting.world.write(fact, form)
        for fact in setting.memory
        for ask in RELATIONS[fact.relation].asks
        for form in [setting.convention]
    }
    for query, answer in zip(outputs["queries"], outputs["answers"], strict=True):
        assert answer == known.get(query, UNSOLVED)


@pytest.mark.parametrize("seed", range(60))
def test_no_whole_question_of_the_encyclopedia_is_told_with_its_answer(testbed, seed):
    setting = remembering(testbed, seed)
    world, question = grafted(setting)
    if question.shape == "bridge":
        assert question.facts[0].entity not in setting.world.entities[RELATIONS[question.facts[0].relation].kind]
        assert question.facts[0].entity in question.text
        assert question.facts[0] not in setting.world.values
        assert world.values[question.facts[0]] == question.facts[1].entity
    assert question.text not in {asked.question for asked in testbed.test if asked.shape != "one hop"}
