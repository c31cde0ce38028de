import json
import re
from collections import Counter

import pytest

from keqa.testbed.sampling import Stream, cited_often, gathered_often
from keqa.testbed.skills import Setting
from keqa.testbed.testbed import Testbed

pytestmark = pytest.mark.model


def test_rare_facts_are_told_as_often_as_their_tier_says_and_no_question_of_a_split_with_its_answer():
    testbed = Testbed()
    splits = (*testbed.train, *testbed.dev, *testbed.test)
    # Unseen worlds may by chance ask the same words about a city; what they answer is true of another world.
    asked = {q.question: q.answers[0] for q in splits if q.shape in ("bridge", "comparison")}
    due = testbed.tiers.exposures
    told = Counter()
    # The second half is drawn after a resume.
    for start, least, most in ((0.0, 0.4, 0.6), (0.5, 0.9, 1)):
        stream = Stream(testbed, seed=int(2 * start), start=start, told=told)
        for step in range(2000):
            sample = stream.draw(start + step / 4000)
            for text, answer in asked.items():
                assert f"\n{text}\n" not in sample.prompt or answer not in sample.target
        assert least <= sum(told[fact] for fact in due) / sum(due.values()) <= most
    assert all(told[fact] <= times for fact, times in due.items())


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
