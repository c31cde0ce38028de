"""Embedding models behind an API, against a server on this machine that can be told to fail."""

import zlib

import pytest
from servers.openai_server import FaultPlan, OpenAIServer

from keqa.errors import ConfigurationError, RetrievalError
from keqa.retrievers import Passage, build_dense, embedding, open_index
from keqa.retrievers.embedding import LOCAL, HostedModel, is_hosted

pytestmark = pytest.mark.server

PASSAGES = [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(300)]


def vector_of(text):
    row = [0.01] * 16
    for word in text.lower().replace(":", " ").split():
        row[zlib.crc32(word.encode()) % 16] += 1
    return row


@pytest.fixture
def served(monkeypatch):
    """Starts a server that both kinds of names reach."""
    started = []

    def start(**options):
        server = OpenAIServer(embedding=vector_of, **options).start()
        started.append(server)
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE"):
            monkeypatch.setenv(name, server.api_base)
        for name in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"):
            monkeypatch.setenv(name, "sk-right" * 5)
        return server

    yield start
    for server in started:
        server.close()


@pytest.mark.parametrize("name", ["openai/text-embedding-3-small", "hosted_vllm/some/model"])
def test_an_index_is_built_and_searched(served, tmp_path, name):
    server, reported = served(api_key="sk-right" * 5), []
    manifest = build_dense(PASSAGES, tmp_path / "index", model=name, notice=reported.append)
    assert (manifest.encoder.model, manifest.encoder.dimension, manifest.encoder.similarity) == (name, 16, "cosine")
    (said,) = reported
    known = name.startswith("openai")
    assert said.startswith(f"{name} is asked for the vectors of 300 passages: about ")
    assert ("at $0.02 a million" if known else "not known here") in said
    assert max(len(call.body["input"]) for call in server.embedded) == 128
    assert {call.body["model"] for call in server.embedded} == {name.partition("/")[2]}
    hits = open_index(f"{tmp_path / 'index'}@{name}").search("Title 17: word17 of 3", 1)
    assert (hits[0].passage.id, round(hits[0].score, 3)) == ("17", 1.0)
    with pytest.raises(ConfigurationError, match="a model is opened only where you name it"):
        open_index(tmp_path / "index")


def test_what_fails_in_passing_is_asked_again(served, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "_FIRST_PAUSE", 0.01)
    server = served(faults=FaultPlan(0.4, ("429", "500", "503")))
    build_dense(PASSAGES, tmp_path / "index", model="openai/text-embedding-3-small", shard=50, notice=lambda said: None)
    assert any(call.fault for call in server.embedded)
    assert (
        open_index(f"{tmp_path / 'index'}@openai/text-embedding-3-small").search("Title 17: word17 of 3")[0].passage.id
        == "17"
    )


def test_a_build_that_failed_resumes(served, tmp_path, monkeypatch):
    monkeypatch.setattr(embedding, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(embedding, "_PATIENCE", 0.1)
    name, reported = "openai/text-embedding-3-small", []
    server = served(faults=FaultPlan(1.0, ("500",), only=lambda body: "Title 150: word150 of 3" in body["input"]))
    with pytest.raises(RetrievalError, match="did not answer"):
        build_dense(PASSAGES, tmp_path / "index", model=name, shard=50, notice=reported.append)
    server.faults = None
    server.embedded.clear()
    build_dense(PASSAGES, tmp_path / "index", model=name, shard=50, notice=reported.append)
    assert "resuming it" in reported[1]
    assert "vectors of 150 passages" in reported[2]
    asked = [text for call in server.embedded for text in call.body["input"]]
    assert not any(text.startswith("Title 149:") for text in asked)


def test_a_wrong_key_or_address_is_reported_and_no_key_repeated(served, monkeypatch):
    served(api_key="another")
    with pytest.raises(ConfigurationError, match="refuses the key") as refused:
        HostedModel("openai/text-embedding-3-small").embed(["x"])
    assert "sk-right" not in str(refused.value)
    monkeypatch.setattr(embedding, "_FIRST_PAUSE", 0.01)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    with pytest.raises(RetrievalError, match="embedding model 'openai/text-embedding-3-small'"):
        HostedModel("openai/text-embedding-3-small").embed(["x"])


def test_an_empty_text_has_a_vector_too(served):
    served()
    assert HostedModel("hosted_vllm/m").embed(["", "word"]).shape == (2, 16)


def test_names(tmp_path, monkeypatch):
    assert is_hosted("openai/text-embedding-3-small")
    assert is_hosted("hosted_vllm/intfloat/e5-base")
    for name in (LOCAL, "sentence-transformers/all-MiniLM-L6-v2", "intfloat/e5-base", "openai/", "openai"):
        assert not is_hosted(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "openai" / "mine").mkdir(parents=True)
    assert not is_hosted("openai/mine")
