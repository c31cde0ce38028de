from collections import Counter

import pytest

from keqa.testbed.sampling import Stream
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
