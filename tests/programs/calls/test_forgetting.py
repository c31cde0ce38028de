"""A reply that cannot be used is in no cache afterwards."""

from __future__ import annotations

from types import SimpleNamespace

import dspy
import pytest
from dspy.clients.cache import Cache
from dspy.utils.exceptions import LMTransportError

from keqa.programs import UnansweredError
from keqa.programs.baselines import ClosedBook
from keqa.programs.calls.ask import keeping, listen_to, tell_kept


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


@pytest.mark.usefixtures("memory_cache")
def test_what_an_engine_that_repeats_itself_cannot_answer_is_asked_once_and_an_outage_is_asked_again(scripted):
    outage = LMTransportError("away", model="m", provider="p")
    replies = [outage]

    def reply(name, inputs, config):
        if isinstance(replies[0], Exception):
            raise replies[0]
        return replies[0]

    lm, engine = scripted(reply, cache=True)
    engine.repeats = True
    program = ClosedBook()
    program.set_lm(lm)
    for replies[0], calls in ((outage, 2), ("", 5), ("", 0)):
        before = len(engine.calls)
        with pytest.raises(UnansweredError):
            program("Who?")
        assert len(engine.calls) - before == calls


@pytest.mark.usefixtures("memory_cache")
def test_a_cache_tells_what_it_keeps_to_the_call_that_is_made(scripted):
    request = {"model": "m", "prompt": "p"}
    with keeping(SimpleNamespace(cache=True)) as kept:
        dspy.cache.put(request, "reply")
    assert dspy.cache.get(request) == "reply"
    [forget] = kept
    forget()
    assert dspy.cache.get(request) is None
    forget()


def test_outside_of_a_call_nothing_is_kept():
    def forget() -> None:
        raise AssertionError("nobody asked for it")

    tell_kept(forget)
    with keeping(None) as outer:
        with keeping(None) as inner:
            tell_kept(forget)
        tell_kept(forget)
        tell_kept(forget)
    assert (len(outer), len(inner)) == (2, 1)


def test_a_reply_is_forgotten_on_the_disk_too(tmp_path):
    cache = Cache(True, True, str(tmp_path), 10**7)
    listen_to(cache)
    with keeping(None) as kept:
        cache.put({"model": "m"}, "reply")
    cache.memory_cache.clear()
    assert cache.get({"model": "m"}) == "reply"
    [forget] = kept
    forget()
    assert cache.get({"model": "m"}) is None
    cache.disk_cache.close()
