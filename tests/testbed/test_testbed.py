import re

import pytest

from keqa.testbed.questions import SHAPES
from keqa.testbed.testbed import Testbed, WorldSettings
from keqa.testbed.world import Date


@pytest.fixture(scope="module")
def testbed():
    return Testbed()


def test_splits_share_no_question(testbed):
    texts = [q.question for split in (testbed.train, testbed.dev, testbed.test) for q in split]
    assert len(texts) == len(set(texts)) == 700
    assert {q.shape for q in testbed.test} == set(SHAPES)


def test_every_present_value_is_stated_by_a_source_that_is_up_to_date(testbed):
    texts: dict[str, list[str]] = {}
    for passage in testbed.passages:
        if not any(passage.text.endswith(f"Source: {source}.") for source in testbed.stale_sources):
            texts.setdefault(passage.id.split("/")[1], []).append(passage.text)
    for fact in testbed.world.facts():
        value = testbed.world.values[fact]
        shown = str(value.year) if isinstance(value, Date) else value
        assert any(shown in text for text in texts[fact.entity]), fact


@pytest.mark.parametrize(("known", "tier"), [(1.0, {"often"}), (0.0, {"sometimes", "never", "stale"})])
def test_known_share_chooses_the_questions(known, tier):
    testbed = Testbed(WorldSettings(questions=(0, 0, 40), known=known))
    seen = [set(q.tiers) for q in testbed.test]
    assert all(tiers <= tier if known else tiers & tier for tiers in seen)


def test_each_list_is_asked_for_once_and_complete(testbed):
    questions = testbed.lists
    assert len({one.question for one in questions}) == len(questions) == 67
    assert [one.id for one in questions[:2]] == ["lists-1", "lists-2"]
    for one in questions:
        relation, value = re.search(r"whose (.+) is (.+)\.", one.question).groups()
        facts = [fact for fact in testbed.world.facts() if fact.relation == relation]
        assert set(one.answers) == {fact.entity for fact in facts if str(testbed.world.values[fact]) == value}
        assert len(one.answers) >= 3
