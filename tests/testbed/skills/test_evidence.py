"""Triples, documents and evidence tell what the LM may know and what answers the question."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from keqa.testbed.relations import RELATIONS
from keqa.testbed.skills import Setting
from keqa.testbed.skills.reflecting import document, evidenced, expand
from keqa.testbed.testbed import Testbed
from keqa.testbed.world import believed
from keqa.testbed.world import SMALL, Convention, Fact, World


def unseen(seed: int) -> Setting:
    rng = random.Random(seed)
    return Setting.draw(World(seed, SMALL), rng, 5)


@pytest.fixture(scope="module")
def remembering():
    testbed = Testbed()
    memory = tuple(testbed.tiers.of("often") + testbed.tiers.of("stale"))
    return Setting(believed(testbed.world, testbed.tiers), random.Random(3), memory=memory)


def written(world: World, fact: Fact) -> set[str]:
    return {world.write(fact, Convention(form)) for form in (0, 1)}


@pytest.mark.parametrize("seed", range(40))
def test_triples_begin_with_the_subject_and_leave_nothing_open(seed):
    inputs, outputs = expand(unseen(seed))
    for triple in outputs["triples"]:
        head, relation, value = triple.split(" | ")
        assert head in outputs["subject"].split(" and ")
        assert head in inputs["question"]
        assert relation in RELATIONS
        assert value.strip(" ?")


def test_what_is_told_from_memory_is_what_the_lm_was_told(remembering):
    world, memory = remembering.world, set(remembering.memory)
    right = invented = 0
    for _ in range(300):
        for triple in expand(remembering)[1]["triples"]:
            head, relation, value = triple.split(" | ")
            fact = Fact(relation, head)
            if fact in memory:
                right += value in written(world, fact)
            else:
                # The truth that it was not told is not given away.
                assert value not in written(world, fact)
                invented += 1
    assert right > 300
    assert invented > 20


def test_a_document_states_no_fact_that_the_lm_was_not_told(remembering):
    world, memory = remembering.world, set(remembering.memory)
    hidden = set()
    for fact in world.facts():
        if fact not in memory:
            sentences = {RELATIONS[fact.relation].states[0].format(r=fact.entity, v=v) for v in written(world, fact)}
            hidden |= {sentence[0].upper() + sentence[1:] for sentence in sentences}
    for _ in range(300):
        inputs, outputs = document(remembering)
        assert not any(sentence in outputs["document"] for sentence in hidden)
        assert all(name.lower() in inputs["question"].lower() for name in outputs["title"].split(" and "))


def test_the_evidence_or_else_a_triple_tells_the_answer():
    kinds = set()
    for seed in range(300):
        setting = replace(unseen(seed), convention=Convention(), shape="one hop")
        inputs, outputs = evidenced(setting)
        told = [s for s in inputs["evidence"] if any(value in s for value in (outputs["answer"],))]
        by_triple = [t for t in inputs["triples"] if t.endswith(f" | {outputs['answer']}")]
        dated = any(char.isdigit() for char in outputs["answer"])
        assert told or by_triple or dated
        kinds.add((bool(inputs["evidence"]), bool(inputs["triples"])))
    # Each may be absent, never both.
    assert kinds == {(True, True), (True, False), (False, True)}


def test_triples_are_wrong_at_times_and_the_answer_is_not():
    contradicted = 0
    for seed in range(300):
        setting = replace(unseen(seed), convention=Convention(), shape="one hop")
        inputs, outputs = evidenced(setting)
        asked = [t for t in inputs["triples"] if t.split(" | ")[0] in inputs["question"]]
        contradicted += bool(inputs["evidence"]) and any(not t.endswith(outputs["answer"]) for t in asked)
    assert contradicted > 60
