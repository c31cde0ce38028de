"""The distance of sentences from triples by their embeddings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.programs.reference import embedding
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.stages import selection
from keqa.programs.stages.selection import EmbeddingSimilarity, closest, lexical_similarity, similarity_of


class Recording(HashingEmbedder):
    def __init__(self) -> None:
        super().__init__(64)
        self.batches: list[list[str]] = []

    def embed(self, texts):
        self.batches.append(list(texts))
        return super().embed(texts)


@pytest.fixture
def recording(monkeypatch):
    embedder = Recording()
    monkeypatch.setattr(selection, "open_embedder", lambda name: embedder)
    return embedder


def test_triples_are_one_text_and_a_call_is_one_batch(recording):
    similarity = EmbeddingSimilarity("mine")
    similarity(["a | b | ?", "c | d | ?"], ["One.", "Two."])
    similarity(["e | f | ?"], ["Two.", "Three."])
    assert recording.batches == [["a | b | ?, c | d | ?", "One.", "Two."], ["e | f | ?", "Three."]]
    assert similarity.name == "mine"


def test_the_closest_by_embeddings():
    candidates = ["The mayor is Ann Berg.", "Fish is sold there.", "Carmouth has a harbour."]
    similarity = EmbeddingSimilarity("hashing-256")
    assert closest(["Carmouth | mayors | ?"], candidates, 2, similarity) == [candidates[0], candidates[2]]
    scores = similarity(["Fish is sold there."], candidates)
    assert scores[1] == pytest.approx(1.0)
    assert max(scores[0], scores[2]) < 0.5
    # Words alone do not see that "mayors" is near "mayor".
    assert lexical_similarity(["mayors"], candidates) == [0.0, 0.0, 0.0]
    assert np.argmax(similarity(["mayors"], candidates)) == 0


WORDS = st.lists(st.sampled_from(["ann", "berg", "mayor", "harbour", "old", "fish", "town"]), min_size=1, max_size=5)
TEXTS = st.lists(WORDS.map(" ".join), min_size=1, max_size=8, unique=True)


@given(WORDS.map(" ".join), TEXTS)
def test_the_order_is_that_of_the_euclidean_distance(wanted, candidates):
    scores = EmbeddingSimilarity("hashing")([wanted], candidates)
    rows = HashingEmbedder().embed([wanted, *candidates])
    distances = np.linalg.norm(rows[1:] - rows[0], axis=1)
    assert np.square(distances) == pytest.approx(2 - 2 * np.array(scores), abs=1e-5)


def test_a_name_a_function_or_words():
    def own(wanted, candidates):
        return [0.0 for _ in candidates]

    assert similarity_of(None) is lexical_similarity
    assert similarity_of(own) is own
    named = similarity_of("hashing")
    assert isinstance(named, EmbeddingSimilarity)
    assert named.name == "hashing"


def test_a_model_that_is_not_there_is_refused_at_once(monkeypatch):
    def away(name):
        raise ConfigurationError(f"the embedding model {name!r} cannot be opened")

    monkeypatch.setattr(embedding, "open_model", away)
    with pytest.raises(ConfigurationError, match=r"similarity=nowhere: the embedding model 'nowhere' cannot be opened"):
        EmbeddingSimilarity("nowhere")
