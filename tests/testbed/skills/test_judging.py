"""Verdicts on several passages are those that each would get by itself."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from keqa.testbed.relations import RELATIONS
from keqa.testbed.skills import Setting
from keqa.testbed.skills.judging import utilities
from keqa.testbed.world import SMALL, World


def drawn(seed: int, stale: tuple[str, ...], **changes: object) -> Setting:
    rng = random.Random(seed)
    return replace(Setting.draw(World(seed, SMALL), rng, 6), stale=stale, **changes)


@pytest.mark.parametrize("easy", [False, True])
def test_a_passage_helps_that_tells_the_answer_and_is_not_out_of_date(easy):
    helpful = unhelpful = outdated = 0
    for seed in range(200):
        setting = drawn(seed, ("Herald", "Atlas") if seed % 2 else (), easy=easy)
        inputs, outputs = utilities(setting)
        assert list(inputs["passages"]) == list(outputs["helpful"]) == list(range(1, len(inputs["passages"]) + 1))
        fact, relation = next(
            (fact, relation)
            for fact in setting.world.facts()
            for relation in [RELATIONS[fact.relation]]
            if inputs["quiz"] in [ask.format(e=fact.entity) for ask in relation.asks]
        )
        said = {
            setting.convention.__class__(form).write(setting.world.values[fact], relation.target) for form in (0, 1)
        }
        for number, passage in inputs["passages"].items():
            about = passage.split(":")[0].lower() == fact.entity.lower()
            if outputs["helpful"][number]:
                assert about
                assert any(value in passage for value in said)
                helpful += 1
            else:
                unhelpful += 1
                outdated += about and passage.endswith(("Source: Herald.", "Source: Atlas.")) and relation.changeable
    assert min(helpful, unhelpful) > 200
    assert outdated > 10


def test_a_list_holds_no_more_passages_than_the_setting_allows():
    assert max(len(utilities(drawn(seed, ()))[0]["passages"]) for seed in range(60)) == 6
