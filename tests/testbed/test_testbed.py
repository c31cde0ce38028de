import random

import pytest

from keqa.testbed.questions import SHAPES, QuestionMaker
from keqa.testbed.relations import relations_of
from keqa.testbed.testbed import Settings, Testbed
from keqa.testbed.world import GOLD, Date, Fact, World


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


def test_each_source_that_is_out_of_date_states_all_that_was_true_once(testbed):
    assert testbed.stale_sources == ("Gazette", "Herald")
    told: dict[tuple[str, str, str], str] = {}
    for passage in testbed.passages:
        kind, entity, number = passage.id.split("/")
        if number in ("2", "3"):
            told[kind, entity, testbed.stale_sources[int(number) - 2]] = passage.text
    assert len(told) == 276 * 2
    for (kind, entity, source), text in told.items():
        assert text.endswith(f"Source: {source}.")
        for relation in relations_of(kind):
            if relation.changeable:
                fact = Fact(relation.name, entity)
                assert str(testbed.world.past[fact]) in text, fact


def test_knobs_change_the_corpus():
    plain = Testbed(Settings(distractors=0, stale_sources=0, questions=(4, 4, 4)))
    noisy = Testbed(Settings(distractors=3, stale_sources=2, questions=(4, 4, 4)))
    assert len(plain.passages) == 276 * 2
    assert len(noisy.passages) == 276 * 7


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


def test_references_resolve_to_answers():
    world = World(7)
    maker = QuestionMaker(world, random.Random(1))
    question = maker.draw("bridge")
    assert "#1" in question.quizzes[1]
    assert question.resolved(world)[1] == question.quizzes[1].replace(
        "#1", world.write(Fact(question.facts[0].relation, question.facts[0].entity), GOLD.between)
    )


def test_final_answers_name_people_by_their_surnames_and_quizzes_in_full(testbed):
    question = next(q for q in testbed.test if q.question.startswith("Who leads"))
    assert (question.answers, question.quiz_answers) == (("Orman",), ("Max Orman",))


def test_further_questions_are_new_of_every_shape_and_the_same_for_a_seed(testbed):
    drawn = testbed.more_questions(60, seed=1)
    assert not {question.question for question in drawn} & testbed.asked()
    assert len({question.question for question in drawn}) == 60
    assert {question.shape for question in drawn} == set(SHAPES)
    assert drawn == testbed.more_questions(60, seed=1) != testbed.more_questions(60, seed=2)
    assert drawn[0].id == "more-1-0"
