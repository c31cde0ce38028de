"""A server that is dead, wrong or unauthorised is found before any work; one that is slow or busy is not refused."""

import os
import socket
import time

import pytest
from servers.openai_server import FaultPlan, HTTPFault, OpenAIServer

from keqa.errors import ConfigurationError
from keqa.lms import build_lm, build_roles, check_reachable, preflight
from keqa.lms.preflight import check_listening

pytestmark = pytest.mark.server

SECRET = "sk-very-secret-0123456789"


@pytest.fixture
def silent():
    """An address at which connections are accepted and nothing is said."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def refusal(*lms):
    with pytest.raises(ConfigurationError) as caught:
        check_reachable(lms)
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        ("openai/m", "Start the server, or check the address"),
        ("hosted_vllm/m", r"Start the server (vllm serve m), or check the address"),
        ("ollama_chat/qwen3", "Start Ollama (ollama serve), or check the address"),
        ("anthropic/claude-haiku-4-5", "Start the server, or check the address"),
    ],
)
def test_a_dead_server_is_reported_with_its_address(model, reported, dead):
    start = time.monotonic()
    said = refusal(build_lm(model, api_base=dead, api_key=SECRET))
    assert said.startswith(
        f"{model} cannot be reached: {dead} refuses the connection: nothing listens there. {reported}"
    )
    assert time.monotonic() - start < 30


def test_no_name_password_or_query_of_an_address_is_shown(monkeypatch, dead):
    monkeypatch.setenv("OPENAI_API_BASE", f"{dead.replace('//', f'//me:{SECRET}@')}?key={SECRET}")
    assert f"{dead} refuses" in refusal(build_lm("openai/m", api_key=SECRET))


@pytest.mark.parametrize("model", ["openai/m", "hosted_vllm/m"])
def test_a_key_that_is_refused_is_reported_with_its_variable(model):
    with OpenAIServer(api_key="right") as server:
        said = refusal(build_lm(model, api_base=server.api_base, api_key=SECRET))
        assert said.startswith(f"{model}: {server.api_base} does not accept the key: check ")
    assert f"{model.split('/')[0].upper()}_API_KEY in the environment" in said


def test_credentials_that_are_missing_are_reported(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    # Its client takes seconds to be imported, and a server that is only slow is no fault.
    pytest.importorskip("boto3.session")
    said = refusal(build_lm("bedrock/anthropic.claude-3-haiku-20240307-v1:0"))
    assert "the provider's credentials are missing" in said


def test_a_key_that_is_missing_is_reported():
    with OpenAIServer(api_key="right") as server:
        said = refusal(build_lm("openai/m", api_base=server.api_base))
        assert said == f"openai/m: {server.api_base} asks for a key: set OPENAI_API_KEY in the environment"


def unknown_model(messages, n, body):
    raise HTTPFault(404, f"The model {body['model']} does not exist ({SECRET})", "model_not_found")


@pytest.mark.parametrize("key", [None, SECRET])
def test_a_model_that_is_not_there_is_reported_with_those_that_are(key):
    with OpenAIServer(unknown_model, shows_preflight=True, models=("qwen3-8b", "lo\x1b[31mra")) as server:
        said = refusal(build_lm("hosted_vllm/m", api_base=server.api_base, api_key=key))
        assert said.startswith(f"hosted_vllm/m: {server.api_base} has no model 'm'. It has qwen3-8b, lo??31mra. Check")


def test_an_error_for_ollama_without_the_model_says_how_to_get_it():
    with OpenAIServer(models=("llama3:latest",)) as server:
        check_reachable([build_lm("ollama_chat/llama3", api_base=server.url)])
        assert "ollama pull qwen3" in refusal(build_lm("ollama_chat/qwen3", api_base=server.url))


@pytest.mark.parametrize("kind", ["html", "close"])
def test_what_is_no_server_of_language_models_is_reported(kind):
    with OpenAIServer(shows_preflight=True, faults=FaultPlan(share=1.0, kinds=(kind,))) as server:
        said = refusal(build_lm("openai/m", api_base=server.api_base, api_key=SECRET))
        assert server.api_base in said
    assert "server of language models" in said


@pytest.mark.parametrize("kind", ["429", "500", "503", "error body", "no choices", "null content", "empty"])
def test_what_may_pass_is_no_reason_to_refuse(kind):
    with OpenAIServer(shows_preflight=True, faults=FaultPlan(share=1.0, kinds=(kind,)), retry_after="600") as server:
        check_reachable([build_lm("openai/m", api_base=server.api_base, api_key=SECRET)])
        assert server.count == 1


def test_a_server_that_accepts_and_is_slow_passes(silent, monkeypatch):
    monkeypatch.setattr(preflight, "_SECONDS", 1.0)
    lms = [build_lm(model, api_base=f"{silent}/v1") for model in ("openai/m", "hosted_vllm/m", "ollama_chat/m")]
    start = time.monotonic()
    check_reachable(lms)
    assert time.monotonic() - start < 20


def test_a_bad_request_is_an_answer():
    def refuse(messages, n, body):
        raise HTTPFault(400, "max_tokens must be at least 16")

    with OpenAIServer(refuse, shows_preflight=True) as server:
        check_reachable([build_lm("openai/m", api_base=server.api_base, api_key=SECRET)])


def test_a_server_without_a_key_is_asked_for_its_models_only():
    with OpenAIServer(models=("m",)) as server:
        check_reachable([build_lm("hosted_vllm/m", api_base=server.api_base)])
        assert server.count == 0


def test_each_model_is_asked_once_for_one_token():
    with OpenAIServer(shows_preflight=True) as server:
        roles = build_roles("openai/m", utility_lm="openai/judge", api_base=server.api_base, api_key=SECRET)
        check_reachable([roles.task, roles.consistency, roles.utility])
        assert sorted((call.body["model"], call.body["max_tokens"], call.n) for call in server.calls) == [
            ("judge", 1, 1),
            ("m", 1, 1),
        ]
        assert not roles.task.history


def test_models_in_this_process_need_nothing(tiny_folder):
    check_reachable([build_lm(f"transformers/{tiny_folder}")])
    check_reachable([])


def test_listening_is_checked_without_a_language_model(dead):
    with OpenAIServer() as server:
        check_listening(
            [("openai/m", server.api_base), ("keqa/tiny", None), ("nonsense", None), ("openai/m", "ftp://x")]
        )
        check_listening([("openai/m", "http://host:99999/v1"), ("openai/m", "http://[::1/v1")])
        with pytest.raises(ConfigurationError, match=r"hosted_vllm/m cannot be reached: .* refuses the connection"):
            check_listening([("openai/m", server.api_base), ("hosted_vllm/m", dead)])
    with pytest.raises(ConfigurationError, match=r"http://\.host/v1 names a host that is not known"):
        check_listening([("openai/m", "http://.host/v1")])
