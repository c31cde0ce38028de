import random

import pytest

from keqa.testbed.questions import SHAPES, QuestionMaker
from keqa.testbed.testbed import Settings, Testbed
from keqa.testbed.world import Date, World


@pytest.fixture(scope="module")
def testbed() -> Testbed:
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
    testbed = Testbed(Settings(questions=(0, 0, 40), known=known))
    seen = [set(q.tiers) for q in testbed.test]
    assert all(tiers <= tier if known else tiers & tier for tiers in seen)


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_follow_from_the_facts(shape):
    world = World(7)
    maker = QuestionMaker(world, random.Random(0))
    for _ in range(60):
        question = maker.draw(shape)
        values = [world.values[fact] for fact in question.facts]
        if shape in ("one hop", "bridge"):
            assert question.answer == question.facts[-1]
            assert len(question.quizzes) == len(question.facts) == (1 if shape == "one hop" else len(values))
            for before, after in zip(question.facts, question.facts[1:], strict=False):
                assert world.values[before] == after.entity
        elif shape == "comparison":
            first, second = (v.year if isinstance(v, Date) else int(v) for v in values)
            early = " earlier," in question.text or " first," in question.text
            assert question.answer == question.facts[0 if (first < second) == early else 1].entity
        else:
            assert question.answer == ("yes" if values[0] == values[1] else "no")
            assert question.answer_type == "yes/no"
