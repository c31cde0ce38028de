"""Lists of the testbed have known members, which a program gathers from its encyclopedia."""

import json
import re

import pytest

import keqa
from keqa.evaluation.questions import of_testbed
from keqa.metrics.citations import list_quality
from keqa.programs.keqa import KEQA
from keqa.testbed.relations import RELATIONS
from keqa.testbed.testbed import Testbed

ASKED = re.compile(r"whose (.+) is (.+)\.")


@pytest.fixture(scope="module")
def testbed():
    return Testbed()


def read(inputs):
    """What a reader finds who misses nothing: whoever a passage is about, where it states what is asked of them."""
    relation, value = ASKED.search(inputs["question"]).groups()
    states = [state.split("{r}")[-1].format(v=value).rstrip(".") for state in RELATIONS[relation].states]
    items = []
    for number, passage in json.loads(inputs["passages"]).items():
        title, _, text = passage.partition("\n")
        if any(state in text for state in states):
            items.append(f"{title} [{number}]")
    return {"items": json.dumps(items)}


def test_each_list_is_asked_for_once_and_complete(testbed):
    questions = list(of_testbed("lists").examples)
    assert len({one.question for one in questions}) == len(questions) == 67
    assert [one.id for one in questions[:2]] == ["lists-1", "lists-2"]
    for one in questions:
        relation, value = ASKED.search(one.question).groups()
        facts = [fact for fact in testbed.world.facts() if fact.relation == relation]
        assert set(one.answers) == {fact.entity for fact in facts if str(testbed.world.values[fact]) == value}
        assert len(one.answers) >= 3


def test_gathering_goes_on_for_as_many_members_as_there_are(testbed, scripted):
    def reply(name, inputs, config):
        return read(inputs) if name == "ListItems" else {"quizzes": "[]", "answer": "None", "helpful": "False"}

    lm, _ = scripted(reply)
    found = {}
    for most in (10, 50):
        program = KEQA(keqa.open_encyclopedia(), lms=keqa.build_roles(lm), style="list", max_passages=most)
        qualities = []
        for question in testbed.lists[:20]:
            written = program(question.question).record.written
            qualities.append((*list_quality([one.bare for one in written.given], question.answers), written.looked_at))
        found[most] = [round(sum(values) / len(values), 2) for values in zip(*qualities, strict=True)]
    # Recall, precision (sources that are out of date are believed), and passages looked at, of as many as allowed.
    assert found == {10: [0.6, 0.71, 8.9], 50: [0.98, 0.77, 26.4]}
