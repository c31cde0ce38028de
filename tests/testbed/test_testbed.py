import re

import pytest

from keqa.testbed.testbed import Testbed, WorldSettings


@pytest.fixture(scope="module")
def testbed():
    return Testbed()


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
