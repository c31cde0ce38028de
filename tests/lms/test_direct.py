"""Requests that are sent without LiteLLM: which they are, and that nothing else differs."""

import os
import subprocess
import sys
from contextlib import nullcontext

import dspy
import litellm
import pytest
from servers import openai_server as serving
from servers.openai_server import FaultPlan, OpenAIServer, markers

from keqa.lms import build_lm, served
from keqa.lms.direct import is_direct
from keqa.lms.loops import drafts_to
from keqa.programs.calls.session import CallMeter
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz

pytestmark = pytest.mark.server

PLAIN = {"model": "openai/m", "api_base": "http://127.0.0.1:9/v1", "temperature": 0.0, "max_tokens": 5}


@pytest.mark.parametrize(
    "setting",
    [{}, {"model": "hosted_vllm/m"}, {"n": 5, "logprobs": True, "rollout_id": 3, "seed": 1, "stop": ["x"]}],
)
def test_plain_requests_to_a_server_of_ones_own_are_sent_as_they_are(setting):
    assert is_direct(PLAIN | setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"api_base": None},
        {"api_base": "http://127.0.0.1:9/v1/chat/completions"},
        {"api_base": "http://127.0.0.1:9/v1?version=2"},
        {"model": "openai/gpt-4o-mini"},
        {"model": "ollama_chat/m"},
        {"extra_headers": {"X-Team": "a"}},
        {"response_format": {"type": "json_object"}},
        {"top_k": 3},
        {"additional_drop_params": ["seed"]},
    ],
)
def test_what_litellm_has_something_to_do_for_goes_through_it(setting):
    assert not is_direct(PLAIN | setting)


@pytest.mark.parametrize(
    ("name", "value"),
    [("callbacks", ["log"]), ("success_callback", ["log"]), ("headers", {"a": "b"}), ("ssl_verify", False)],
)
def test_who_has_set_up_litellm_gets_it(monkeypatch, name, value):
    monkeypatch.setattr(litellm, name, value)
    assert not is_direct(PLAIN)


def asked(server, monkeypatch, model, *, direct, **config):
    """Ask one way or the other: what was sent, with which key, what it cost, and the answer or the error."""
    with monkeypatch.context() as patch:
        if not direct:
            patch.setattr(served, "is_direct", lambda request: False)
        lm = build_lm(model, api_base=server.api_base, api_key="secret", cache=False, num_retries=0)
        meter, error, answers = CallMeter(None), None, None
        with dspy.context(lm=lm, adapter=adapter(), usage_tracker=meter):
            try:
                found = dspy.Predict(AnswerQuiz)(quiz="Capital of Norwäy?", config=config)
                reply = lm.history[-1]["response"]
                ends = [choice.finish_reason for choice in reply.choices]
                answers = (found.completions.answer, lm.history[-1]["outputs"], ends, reply.model)
            except dspy.LMError as raised:
                error = (type(raised).__name__, raised.retry_after)
    call = server.calls[-1]
    return call.body, call.authorization, (meter.calls, meter.prompt, meter.completion), answers, error


@pytest.mark.parametrize("model", ["openai/m", "hosted_vllm/m"])
@pytest.mark.parametrize(
    ("text", "config"),
    [
        (markers(answer="Oslo"), {}),
        (markers(answer="Oslo"), {"n": 3, "temperature": 1.0, "top_p": 0.9, "seed": 4, "stop": ["\n\n\n"]}),
        (markers(answer="Oslo"), {"logprobs": True, "top_logprobs": 2}),
        (f"<think>Which one?</think>\n{markers(answer='Oslo')}", {}),
    ],
)
def test_requests_and_replies_are_the_same(monkeypatch, model, text, config):
    with OpenAIServer(lambda messages, n, body: [text] * n, probability=lambda text: 0.5) as server:
        one, other = (asked(server, monkeypatch, model, direct=direct, **config) for direct in (True, False))
    assert one[3] is not None
    assert one == other


@pytest.mark.parametrize("model", ["openai/m", "hosted_vllm/m"])
@pytest.mark.parametrize("kind", ["429", "500", "503", "error body", "no choices", "html", "list", "nothing"])
def test_errors_are_the_same(monkeypatch, model, kind):
    plan = FaultPlan(share=1.0, kinds=(kind,))
    with OpenAIServer(lambda messages, n, body: [""] * n, faults=plan, retry_after="7") as server:
        one, other = (asked(server, monkeypatch, model, direct=direct) for direct in (True, False))
    assert one[4] is not None
    assert one == other


@pytest.mark.parametrize("done", [True, False])
def test_a_stream_that_says_that_it_is_done_is_whole_without_a_reason(server, monkeypatch, done):
    events = serving._events

    def without_reason(sound):
        sent = events(sound).replace(b'"finish_reason": "stop"', b'"finish_reason": null')
        return sent if done else sent.replace(b"data: [DONE]", b"")

    monkeypatch.setattr(serving, "_events", without_reason)
    lm, told = build_lm("openai/m", api_base=server.api_base, cache=False, num_retries=0), []
    with drafts_to(told.append), nullcontext() if done else pytest.raises(dspy.LMTransportError, match="ended before"):
        assert lm("Hello") == ["".join(told[1:])]


def test_a_server_of_ones_own_is_asked_again_without_litellm(server, tmp_path):
    asks = (
        "import sys; from keqa.lms import build_lm, check_reachable, supports_n\n"
        "lm = build_lm('hosted_vllm/scripted', api_base=sys.argv[1]); check_reachable([lm])\n"
        "print('litellm' in sys.modules, supports_n(lm), lm('Hello'), 'litellm' in sys.modules)"
    )
    server.reply = lambda messages, n, body: ["Oslo"] * n
    said = [
        subprocess.run(
            [sys.executable, "-c", asks, server.api_base],
            env={**os.environ, "DSPY_CACHEDIR": str(tmp_path / "calls")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]
    assert said == ["False True ['Oslo'] True", "False True ['Oslo'] False"]
    # What is kept of calls, which quotes questions, is for nobody else.
    assert sys.platform == "win32" or (tmp_path / "calls").stat().st_mode & 0o777 == 0o700
