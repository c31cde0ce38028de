"""Vectors in a real Elasticsearch, made by small stand-ins for embedding models."""

import pytest
from servers.openai_server import OpenAIServer

from keqa.errors import ConfigurationError
from keqa.retrievers import Passage, build_dense, open_index
from keqa.retrievers.elasticsearch.retriever import ElasticsearchDenseRetriever, ElasticsearchRetriever
from keqa.retrievers.elasticsearch.writing import load_index

MODEL = "some/model"
MANY = [Passage(str(n), f"Title {n % 50}", f"word{n} and word{n % 7} of {n % 31}") for n in range(400)]
QUERIES = ["Title 17: word17 and word3", "word250 of 2", "word6", "word399 and", "…"]


@pytest.fixture
def dense(address):
    return address.replace("elasticsearch", "elasticsearch+dense", 1)


def rounded(hits):
    return [(hit.passage.id, round(hit.score, 4)) for hit in hits]


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_same_is_found_with_the_same_scores_as_by_the_dense_engine(library, address, dense, tmp_path, similarity):
    embedded = build_dense(MANY, tmp_path / "i", model=MODEL, similarity=similarity)
    loaded = load_index(MANY, address, model=MODEL, similarity=similarity)
    assert (loaded.encoder, loaded.source_hash) == (embedded.encoder, embedded.source_hash)
    found = open_index(f"{dense}@{MODEL}")
    assert isinstance(found, ElasticsearchDenseRetriever)
    assert (found.manifest, found.address) == (loaded, dense)
    expected = open_index(f"{tmp_path / 'i'}@{MODEL}").search_many(QUERIES, 10)
    for theirs, ours in zip(expected, found.search_many(QUERIES, 10), strict=True):
        # Of those that score the same, others may come first.
        assert [score for _, score in rounded(ours)] == pytest.approx([score for _, score in rounded(theirs)], abs=2e-4)
    assert found.search_many(QUERIES, 10)[-1] == []


def test_the_text_is_searched_as_without_vectors_and_an_index_without_any_says_so(library, address, dense):
    load_index(MANY, address)
    with pytest.raises(ConfigurationError, match="has no vectors: load it again with"):
        open_index(f"{dense}@{MODEL}")
    plain = ElasticsearchRetriever(address)
    before, manifest = plain.search_many(QUERIES, 5), plain.manifest
    load_index(MANY, address, model=MODEL)
    with_vectors = ElasticsearchRetriever(address)
    assert with_vectors.search_many(QUERIES, 5) == before
    # A cache of retrievals takes what the manifest says for what is searched.
    assert type(with_vectors.manifest) is type(manifest)
    assert with_vectors.manifest.analyzer == manifest.analyzer


def test_a_hosted_model(request, address, dense, monkeypatch):
    server = OpenAIServer(embedding=lambda text: [1.0, len(text), text.count("7")]).start()
    request.addfinalizer(server.close)
    for name, value in (("BASE_URL", server.api_base), ("API_BASE", server.api_base), ("API_KEY", "sk-right" * 5)):
        monkeypatch.setenv(f"OPENAI_{name}", value)
    notices = []
    load_index(MANY[:20], address, model="openai/text-embedding-3-small", notice=notices.append)
    assert "openai/text-embedding-3-small is asked for the vectors: for each 1,000,000 bytes" in notices[0]
    assert "at $0.02 a million" in notices[0]
    hits = open_index(f"{dense}@openai/text-embedding-3-small").search(f"Title 7: {MANY[7].text}", 1)
    assert rounded(hits) == [("7", 1.0)]
