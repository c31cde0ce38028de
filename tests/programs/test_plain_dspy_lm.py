"""A plain ``dspy.LM`` is sent the same requests as one that `build_lm` makes."""

from typing import Any

import dspy
import pytest
from servers.openai_server import OpenAIServer, markers

import keqa
from keqa.lms import as_served
from keqa.programs import KEQA


def reply(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
    if "same" in messages[-1]["content"]:
        return [markers(same=True)] * n
    return [markers(answer="Ann")] * n


def requests(make: Any) -> list[dict[str, Any]]:
    with OpenAIServer(reply) as server:
        lm = make(server.api_base)
        program = KEQA(None, decompose=False, tries=5, threshold="1")
        program.set_lm(lm)
        assert program(question="Who?").answer == "Ann"
        assert len(lm.history) == server.count
        return [call.body for call in server.calls]


@pytest.mark.process
def test_it_is_sent_the_same_requests():
    settings = {"api_key": "any", "cache": False, "num_retries": 0, "temperature": 0.0, "max_tokens": 64}
    plain = requests(lambda base: dspy.LM("openai/m", api_base=base, **settings))
    built = requests(lambda base: keqa.build_lm("openai/m", api_base=base, **settings))
    assert [body.get("n", 1) for body in plain] == [5]
    assert plain == built


def test_changed_settings_count():
    lm = dspy.LM("openai/m", api_base="http://127.0.0.1:1/v1", api_key="any", cache=False)
    first = as_served(lm)
    lm.kwargs["temperature"] = 0.5
    assert as_served(lm) is first
    assert first.kwargs["temperature"] == 0.5
    assert first.history is lm.history


@pytest.mark.parametrize("settings", [{"engine": "lm15"}, {"engine": "litellm"}, {"model_type": "text"}])
def test_who_chooses_how_to_send_is_obeyed(settings):
    lm = dspy.LM("openai/m", **settings)
    assert as_served(lm) is lm
