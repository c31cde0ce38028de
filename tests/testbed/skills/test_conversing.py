"""Follow-up questions and what they stand for."""

from __future__ import annotations

import random
import re

import pytest

from keqa.testbed.relations import RELATIONS
from keqa.testbed.skills import Setting
from keqa.testbed.skills.answering import follow_up
from keqa.testbed.world import SMALL, World

LEANS = re.compile(r"\b(he|she|it|his|her|him|its|that \w+)\b")


def unseen(seed: int) -> Setting:
    rng = random.Random(seed)
    return Setting.draw(World(seed, SMALL), rng, 5)


@pytest.mark.parametrize("seed", range(80))
def test_what_stands_alone_holds_no_pronoun_and_names_what_the_conversation_names(seed):
    setting = unseen(seed)
    inputs, outputs = follow_up(setting)
    assert not LEANS.search(outputs["standalone"])
    assert outputs["standalone"].endswith("?")
    if outputs["standalone"] != inputs["question"]:
        known = {name for names in setting.world.entities.values() for name in names}
        known |= {name.split()[-1] for name in setting.world.entities["person"]}
        told = " ".join([inputs["history"][-1], inputs["question"]])
        assert any(name in outputs["standalone"] and name in told for name in known)


def test_some_lean_on_the_last_turn_and_some_on_nothing():
    pairs = [follow_up(unseen(seed)) for seed in range(300)]
    alone = [given for given, made in pairs if given["question"] == made["standalone"]]
    leaning = [given for given, _ in pairs if LEANS.search(given["question"])]
    short = [
        given
        for given, _ in pairs
        if re.match(r"(And|What about|And what about) (?!\w+ \w+ (is|was)\b)", given["question"])
    ]
    assert 30 < len(alone) < 110
    assert len(leaning) > 120
    assert len(short) > 20
    assert {len(given["history"]) for given, _ in pairs} == {1, 2, 3}


def test_a_standalone_question_of_one_hop_is_in_the_wording_of_its_relation():
    setting = unseen(7)
    asks = {ask.format(e=f.entity) for f in setting.world.facts() for ask in RELATIONS[f.relation].asks}
    found = sum(follow_up(setting)[1]["standalone"] in asks for _ in range(100))
    assert found > 40
