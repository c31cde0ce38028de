"""A reply that cannot be used is in no cache afterwards."""

from __future__ import annotations

import dspy
import pytest

from keqa.programs import UnansweredError
from keqa.programs.baselines import ClosedBook


@pytest.mark.usefixtures("memory_cache")
@pytest.mark.parametrize(("reply", "kept"), [("garbage", 0), ({"answer": ""}, 0), ({"answer": "Ann"}, 1)])
def test_only_a_reply_that_can_be_used_is_kept(scripted, reply, kept):
    replies = [reply]
    lm, engine = scripted(lambda name, inputs, config: replies[0], cache=True)
    program = ClosedBook()
    program.set_lm(lm)
    for _ in range(2):
        try:
            program("Who?")
        except UnansweredError:
            continue
    assert len(dspy.cache.memory_cache) == kept
    before = len(engine.calls)
    replies[0] = {"answer": "Bo"}
    assert program("Who?").answer == ("Ann" if kept else "Bo")
    assert len(engine.calls) == before + (1 - kept)
