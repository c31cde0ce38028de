import json
import re

import pytest

from keqa.testbed.sampling import Stream, cited_often, gathered_often
from keqa.testbed.skills import Setting
from keqa.testbed.testbed import Testbed

pytestmark = pytest.mark.model


def test_rare_facts_are_drawn_as_often_as_their_tier_says_also_after_a_resume():
    testbed = Testbed()
    due = testbed.tiers.exposures
    stream = Stream(testbed, seed=0)
    for step in range(3000):
        stream.draw(step / 6000)
    half = sum(stream.told[fact] for fact in due) / sum(due.values())
    assert 0.4 < half < 0.6
    stream = Stream(testbed, seed=1, start=0.5, told=stream.told)
    for step in range(3000):
        stream.draw(0.5 + step / 6000)
    assert sum(stream.told[fact] for fact in due) / sum(due.values()) > 0.97
    assert all(stream.told[fact] <= times for fact, times in due.items())


def test_no_question_of_a_split_is_ever_drawn_with_its_answer():
    # Unseen worlds may by chance ask the same words about a city; what they answer is true of another world.
    testbed = Testbed()
    splits = (*testbed.train, *testbed.dev, *testbed.test)
    asked = {q.question: q.answers[0] for q in splits if q.shape in ("bridge", "comparison")}
    stream = Stream(testbed, seed=9)
    for step in range(3000):
        sample = stream.draw(step / 3000)
        for text, answer in asked.items():
            assert f"\n{text}\n" not in sample.prompt or answer not in sample.target


def test_every_answer_of_a_rehearsal_cites_the_passage_that_tells_it():
    stream = Stream(Testbed(), seed=1)
    for _ in range(60):
        prompt, target = cited_often(Setting.draw(stream._fresh, stream.rng))
        passages = json.loads(re.search(r'^\{"1": .*\}$', prompt, re.M)[0])
        replies = re.findall(r"## answer ## \]\]\n(.*)\n\n\[\[ ## citations ## \]\]\n(.*)", target)
        assert len(replies) >= 2
        for answer, cited in replies:
            numbers = json.loads(cited)
            assert len(numbers) == 1
            assert answer.split()[-1].strip(",.").casefold() in passages[str(numbers[0])].casefold()


def test_every_list_of_a_rehearsal_has_those_whose_passage_tells_the_value():
    stream, sizes = Stream(Testbed(), seed=1), set()
    for _ in range(60):
        prompt, target = gathered_often(Setting.draw(stream._fresh, stream.rng))
        passages = json.loads(re.search(r'^\{"1": .*\}$', prompt, re.M)[0])
        questions = re.findall(r"^List .* is (.*?)\.(?:<|$)", prompt + target, re.M)
        lists = [json.loads(found) for found in re.findall(r"## items ## \]\]\n(.*)\n", target)]
        assert len(questions) == len(lists) >= 1
        for value, items in zip(questions, lists, strict=True):
            sizes.add(len(items))
            for item in items:
                name, number = re.fullmatch(r"(.*) \[(\d+)\]", item).groups()
                assert passages[number].casefold().startswith(f"{name}: ".casefold())
                assert value in passages[number]
    assert {0, 1, 2} <= sizes
