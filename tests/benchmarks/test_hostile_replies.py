"""A small run of the campaign; the whole of it is a command of its own."""

import hostile_replies
import pytest
from dspy.utils.exceptions import AdapterParseError
from hostile_replies import SIGNATURES, Replies, campaign

from keqa.programs.baselines import ClosedBook
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz

pytestmark = pytest.mark.process


def test_every_reply_ends_in_a_value_or_a_typed_error():
    found = campaign(2_000, seed=3)
    assert sum(tally.replies for tally in found.values()) >= 2_000
    assert {name: dict(tally.broken) for name, tally in found.items() if tally.broken} == {}
    # The campaign's own bound is for a machine that does nothing else.
    assert max(tally.slowest for tally in found.values()) < 2
    assert found["adapter"].values > 200
    assert found["adapter"].typed > 200
    # ReAct rarely gets past its first turn on replies like these.
    assert [name for name, tally in found.items() if not tally.values] in ([], ["ReAct"])


def test_the_grammar_is_the_same_for_a_seed_and_has_whole_replies_too():
    first, again = Replies(1), Replies(1)
    assert [first(one) for one in SIGNATURES] == [again(one) for one in SIGNATURES]
    read = 0
    for _ in range(200):
        try:
            read += bool(adapter().parse(AnswerQuiz, first(AnswerQuiz)))
        except AdapterParseError:
            continue
    assert 20 < read < 180


def test_a_mistake_of_the_program_is_found(monkeypatch):
    def parse(self, signature, completion):
        raise AttributeError("choices")

    monkeypatch.setattr(type(adapter()), "parse", parse)
    replies = Replies(0)
    for found in (hostile_replies.read(replies, 20), hostile_replies.asked(replies, ClosedBook(workers=1), 4)):
        assert found.broken["AttributeError"] > 0
        assert not found.kept
