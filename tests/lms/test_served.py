"""What a server does to a call: how long it may take, when it is made again, and what counts as a reply."""

import asyncio
import time
from contextlib import nullcontext
from email.utils import formatdate

import dspy
import pytest
from servers.local_http import LocalHandler, LocalServer
from servers.openai_server import BODY_FAULTS, FaultPlan, OpenAIServer, markers

from keqa.lms import as_served, build_lm, direct, supports_n
from keqa.lms.faults import LONGEST_WAIT, known
from keqa.programs import KEQA
from keqa.programs.calls.call_cache import CallCache
from keqa.programs.calls.session import CallMeter
from keqa.signatures.chat_format import adapter
from keqa.signatures.keqa import AnswerQuiz

pytestmark = pytest.mark.server

ROUTES = ("openai/m", "hosted_vllm/m", "openai/gpt-4o-mini")
"""Models of a server of one's own, and one that LiteLLM knows and is therefore asked through it."""


def oslo(messages, n, body):
    return [markers(answer="Oslo")] * n


def failing(kind, *, first=1000, **options):
    """A server whose first calls fail."""
    left = iter(range(first))
    plan = FaultPlan(share=1.0, kinds=(kind,), only=lambda body: next(left, None) is not None)
    return OpenAIServer(oslo, faults=plan, **options)


def built(server, model="openai/m", **options):
    return build_lm(model, api_base=server.api_base, cache=False, **options)


def ask(lm, **config):
    with dspy.context(lm=lm, adapter=adapter()):
        return dspy.Predict(AnswerQuiz)(quiz="Capital of Norway?", config=config)


async def aask(lm):
    with dspy.context(lm=lm, adapter=adapter()):
        return await dspy.Predict(AnswerQuiz).acall(quiz="Capital of Norway?")


@pytest.mark.parametrize("model", ROUTES)
@pytest.mark.parametrize("awaited", [False, True])
def test_a_reply_that_comes_by_drops_ends_at_the_limit(model, awaited):
    with failing("drip", hang_seconds=60) as server:
        lm = built(server, model, num_retries=0, timeout=1.0)
        start = time.monotonic()
        with pytest.raises(dspy.LMTimeoutError, match="no whole reply within 1 seconds"):
            _ = asyncio.run(aask(lm)) if awaited else ask(lm)
        assert time.monotonic() - start < 20


def test_what_the_import_of_litellm_takes_is_not_the_servers_time(monkeypatch):
    convert = direct._converter()
    monkeypatch.setattr(direct, "_converter", lambda: time.sleep(1.5) or convert)
    with failing("429", first=1) as server:
        lm = built(server, num_retries=0, timeout=1.0)
        with pytest.raises(dspy.LMRateLimitError):
            ask(lm)
        assert ask(lm).answer == "Oslo"


@pytest.mark.parametrize(("kind", "form"), [("429", "seconds"), ("503", "date")])
def test_the_wait_that_a_server_asks_for_is_kept_and_logged(kind, form, caplog):
    asked = "2" if form == "seconds" else formatdate(time.time() + 4, usegmt=True)
    with failing(kind, first=1, retry_after=asked) as server, caplog.at_level("INFO", "keqa.lms"):
        assert ask(built(server, num_retries=1)).answer == "Oslo"
        first, second = server.calls
        assert second.started - (first.finished or 0) >= (2 if form == "seconds" else 1)
    cause = "LMRateLimitError" if kind == "429" else "LMServerError"
    assert f"a call failed ({cause}) and is made again after" in caplog.text


@pytest.mark.parametrize("model", ROUTES)
@pytest.mark.parametrize("kind", ["429", "503"])
def test_a_wait_beyond_the_bound_fails_at_once_and_is_named(kind, model):
    with failing(kind, retry_after="3600") as server:
        with pytest.raises((dspy.LMRateLimitError, dspy.LMServerError), match="asks to wait 3,600 seconds") as caught:
            ask(built(server, model, num_retries=3))
        assert server.count == 1
    assert f"{LONGEST_WAIT:.0f} seconds" in str(caught.value)


@pytest.mark.parametrize("model", ROUTES)
@pytest.mark.parametrize("kind", BODY_FAULTS)
def test_what_is_no_reply_is_an_error_of_the_server_and_asked_again(kind, model):
    with failing(kind, first=1) as server:
        assert ask(built(server, model, num_retries=1)).answer == "Oslo"
        assert server.count == 2
    with failing(kind) as server, pytest.raises(dspy.LMServerError) as caught:
        ask(built(server, model, num_retries=0))
    assert "Traceback" not in str(caught.value)


def test_what_is_no_reply_is_not_kept(memory_cache):
    with failing("no choices", first=1) as server:
        lm = build_lm("openai/m", api_base=server.api_base, num_retries=0)
        with pytest.raises(dspy.LMServerError):
            ask(lm)
        assert ask(lm).answer == "Oslo"


@pytest.mark.parametrize("model", ROUTES)
def test_every_attempt_is_counted_as_sent(model):
    with failing("500", first=2) as server:
        meter = CallMeter(None)
        with dspy.context(usage_tracker=meter):
            ask(built(server, model, num_retries=2))
        assert meter.calls == server.count == 3
    for kind in ("500", "no choices", "close"):
        with failing(kind) as server:
            meter = CallMeter(None)
            with dspy.context(usage_tracker=meter), pytest.raises(dspy.LMError):
                ask(built(server, model, num_retries=1))
            assert meter.calls == server.count == 2


def test_a_server_that_ignores_n_is_remembered():
    with OpenAIServer(lambda messages, n, body: oslo(messages, 1, body)) as server:
        lm = built(server)
        assert supports_n(lm)
        ask(lm, n=4, temperature=1.0)
        assert supports_n(lm), "one short reply may be a fault in passing"
        ask(lm, n=4, temperature=1.0)
        assert not supports_n(lm)
        assert not supports_n(lm.copy(temperature=0.5))
        assert supports_n(built(server))


@pytest.mark.parametrize("model", ROUTES)
def test_a_call_from_within_the_loop_of_requests_does_not_wait_for_itself(model):
    class Asks(dspy.utils.callback.BaseCallback):
        answers: list[str]

        def on_lm_end(self, call_id, outputs, exception=None):
            if not hasattr(self, "answers"):
                self.answers = []
                self.answers = [str(ask(inner).answer)]

    with OpenAIServer(oslo) as server:
        callback, inner = Asks(), built(server, model)
        with dspy.context(callbacks=[callback]):
            assert ask(built(server, model)).answer == "Oslo"
    assert callback.answers == ["Oslo"]


class Redirects(LocalHandler):
    """Sends every request to another server."""

    def post(self):
        self.read_json()
        self.write(307, b"", {"Location": f"{self.server.owner}/chat/completions"})


@pytest.mark.parametrize("model", ROUTES)
def test_a_question_is_not_sent_where_a_server_points_to(model):
    with OpenAIServer(oslo) as other, LocalServer(Redirects, other.api_base) as first:
        lm = build_lm(model, api_base=first.address, api_key="k", cache=False, num_retries=0)
        with pytest.raises(dspy.LMError):
            ask(lm)
        first.stop()
        assert other.count == 0


def test_other_users_of_litellm_keep_its_clients():
    from litellm.llms.openai.common_utils import BaseOpenAILLM

    build_lm("openai/m", api_base="http://127.0.0.1:1/v1", api_key="k")
    assert BaseOpenAILLM.get_async_http_client().follow_redirects


def test_what_this_machine_lacks_is_no_outage():
    error = dspy.LMError("litellm.APIConnectionError: No module named 'google'")
    error.__cause__ = ModuleNotFoundError("No module named 'google'")
    assert isinstance(known(error, "vertex_ai/m"), dspy.LMConfigurationError)


def test_the_words_of_a_server_install_nothing():
    error = dspy.LMServerError("No module named 'evil'; pip install evil", model="m")
    assert not isinstance(known(error, "openai/m"), dspy.LMConfigurationError)


@pytest.mark.parametrize("model", ROUTES)
def test_a_key_that_a_reply_repeats_is_in_no_cache(model, tmp_path, memory_cache):
    key = "sk-0123456789abcdefghij"
    with OpenAIServer(lambda messages, n, body: [markers(answer=f"Oslo {key}")] * n) as server:
        for cache in (nullcontext(), CallCache(tmp_path / "calls.sqlite")):
            with cache, cache.installed() if isinstance(cache, CallCache) else nullcontext():
                lm = build_lm(model, api_base=server.api_base, api_key=key)
                for _ in range(2):
                    assert ask(lm).answer == "Oslo <secret>"
        assert server.count == 2
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"Oslo" in kept
    assert key.encode() not in kept
    assert key not in repr(list(dspy.cache.memory_cache.values()))


@pytest.mark.process
def test_a_plain_language_model_of_dspys_is_sent_the_same_requests():
    def sent(make):
        with OpenAIServer(lambda messages, n, body: [markers(answer="Ann", same=True)] * n) as server:
            program = KEQA(None, decompose=False, tries=5, threshold="1")
            settings = {"api_key": "any", "cache": False, "num_retries": 0, "temperature": 0.0, "max_tokens": 64}
            program.set_lm(lm := make("openai/m", api_base=server.api_base, **settings))
            assert program(question="Who?").answer == "Ann"
            assert len(lm.history) == server.count
            return [call.body for call in server.calls]

    plain = sent(dspy.LM)
    assert [body.get("n", 1) for body in plain] == [5]
    assert plain == sent(build_lm)


def test_a_plain_language_model_stands_for_itself_where_its_settings_change_and_where_it_chooses_how_to_send():
    lm = dspy.LM("openai/m", api_base="http://127.0.0.1:1/v1", api_key="any", cache=False)
    first = as_served(lm)
    lm.kwargs["temperature"] = 0.5
    assert as_served(lm) is first
    assert (first.kwargs["temperature"], first.history) == (0.5, lm.history)
    for settings in ({"engine": "lm15"}, {"engine": "litellm"}, {"model_type": "text"}):
        lm = dspy.LM("openai/m", **settings)
        assert as_served(lm) is lm
