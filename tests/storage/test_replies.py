"""Replies that unpack to more than anybody would send, at each client that KEQA has."""

import gzip
import json
import subprocess
import sys
import zlib
from collections import Counter
from contextlib import suppress

import pytest
from dspy.utils.exceptions import LMError
from servers.local_http import LocalHandler, LocalServer

from keqa.errors import KeqaError
from keqa.lms import build_lm
from keqa.retrievers.elasticsearch.client import connect, parse_address
from keqa.retrievers.embedding import HostedModel
from keqa.storage.replies import MOST, ReplyTooLargeError, Unpacker

CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}]}
OLLAMA = {"model": "m", "message": {"role": "assistant", "content": "Paris"}, "done": True}
BOMB = gzip.compress(b'{"choices": [' + b"[]," * (90 << 20 >> 2) + b"[]]}")


@pytest.fixture
def sending():
    """Serves one body, packed as it says."""
    served = []

    class Handler(LocalHandler):
        def post(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body, encoding = self.server.owner
            self.send_response(200)
            for name, value in (
                ("Content-Type", "application/json"),
                ("X-Elastic-Product", "Elasticsearch"),
                ("Content-Encoding", encoding or "identity"),
                ("Content-Length", str(len(body))),
            ):
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        get = post

    def start(body, encoding):
        served.append(LocalServer(Handler, (body, encoding)))
        return served[-1].address.removesuffix("/v1")

    yield start
    for one in served:
        one.stop()


def ask(model, url, **further):
    base = url if model.startswith("ollama") else f"{url}/v1"
    return build_lm(model, api_base=base, api_key="key-of-a-test", cache=False, num_retries=0, **further)("Where?")


def embed(url, monkeypatch):
    monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test")
    monkeypatch.setattr("keqa.retrievers.embedding._PATIENCE", 0.0)
    return HostedModel("openai/text-embedding-3-small").embed(["a"])


CLIENTS = {
    "direct": lambda url, _: ask("openai/m", url),
    "openai": lambda url, _: ask("openai/m", url, extra_headers={"X-Team": "a"}),
    "ollama": lambda url, _: ask("ollama_chat/m", url),
    "embeddings": embed,
    "elasticsearch": lambda url, _: connect(parse_address(f"elasticsearch://{url.removeprefix('http://')}/i")),
}


@pytest.mark.server
@pytest.mark.parametrize("encoding", ["gzip", "br", None])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_reply_that_is_too_large_is_not_read(sending, monkeypatch, client, encoding):
    taken, take = Counter(), Unpacker.take

    def counted(self, data):
        found = take(self, data)
        taken[self] += len(found)
        return found

    monkeypatch.setattr(Unpacker, "take", counted)
    url = sending({"gzip": BOMB, "br": b"x", None: b" " * (90 << 20)}[encoding], encoding)
    with pytest.raises((LMError, KeqaError), match=r"more than (8|64) MB|not asked for"):
        CLIENTS[client](url, monkeypatch)
    assert max(taken.values(), default=0) <= (64 << 20 if client == "elasticsearch" else MOST)


@pytest.mark.server
def test_the_first_request_that_litellm_sends_is_bounded(sending):
    ask = "import sys; from keqa.lms import build_lm; build_lm('openai/m', api_base=sys.argv[1] + '/v1', cache=False, "
    ask += "api_key='key-of-a-test', num_retries=0, extra_headers={'X-Team': 'a'})('Where?')"
    # In a process of its own: what another test has asked for would hold here as well.
    ended = subprocess.run(
        [sys.executable, "-c", ask, sending(BOMB, "gzip")], capture_output=True, text=True, timeout=300
    )
    assert "more than 8 MB" in ended.stderr


@pytest.mark.server
@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), (None, bytes)])
@pytest.mark.parametrize("client", ["direct", "openai", "ollama"])
def test_a_reply_that_is_packed_is_read(sending, client, encoding, pack):
    url = sending(pack(json.dumps(OLLAMA if client == "ollama" else CHAT).encode()), encoding)
    assert CLIENTS[client](url, None) == ["Paris"]


def test_what_is_damaged_is_no_reply():
    with pytest.raises(ReplyTooLargeError, match="damaged"):
        Unpacker("gzip").take(b"no gzip at all")
