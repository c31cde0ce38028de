"""What a run says of the index that it searches."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace

import pytest

from keqa.errors import InputError
from keqa.evaluation.configuration import demonstrations_of, describe
from keqa.evaluation.evaluate import evaluate
from keqa.evaluation.records import RunHeader
from keqa.programs.baselines import KSLLM, AlwaysRetrieve, ClosedBook
from keqa.programs.keqa import KEQA
from keqa.programs.reference.embedding import HashingEmbedder
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.programs.stages import selection
from keqa.retrievers import CachingRetriever, HybridRetriever, Passage, build_index, open_index
from keqa.retrievers.embedding import EncoderSettings


@pytest.fixture
def index(tmp_path):
    build_index([Passage("1", "", "one")], tmp_path / "index", name="numbers")
    return open_index(tmp_path / "index")


def test_a_cache_makes_no_difference_to_a_run(index, tmp_path):
    with CachingRetriever(index, tmp_path / "retrievals.sqlite") as cached:
        for program in (AlwaysRetrieve, KEQA):
            assert describe(program(cached))["index"] == describe(program(index))["index"]
        assert describe(KEQA(cached, extract_sentences=2))["index"]["source_hash"] == index.manifest.source_hash


def test_that_kept_passages_are_cut_is_among_the_settings():
    reference = UtilityReference().fit([Entry("r", "q", "One. Two. Three.", True)])
    whole, cut = (describe(KEQA(None, reference=reference, extract_sentences=n)) for n in (None, 2))
    assert whole["reference"] == cut["reference"]
    assert (whole["settings"]["extract_sentences"], cut["settings"]["extract_sentences"]) == (None, 2)


@pytest.mark.parametrize("method", [KEQA, KSLLM])
def test_what_compares_sentences_is_described_by_name(method, monkeypatch):
    monkeypatch.setattr(selection, "open_embedder", lambda name: HashingEmbedder())
    programs = [method(None, similarity=name) for name in (None, "hashing", "/a/b/mini")]
    assert [describe(program)["settings"]["similarity"] for program in programs] == [None, "hashing", "mini"]


def test_the_parts_of_a_hybrid_are_described(index):
    described = describe(AlwaysRetrieve(HybridRetriever([index, index])))["index"]
    own = describe(AlwaysRetrieve(index))["index"]
    assert own == {
        "kind": "TantivyRetriever",
        "name": "numbers",
        "passages": 1,
        "source_hash": index.manifest.source_hash,
        "analyzer": asdict(index.manifest.analyzer),
    }
    assert (described["kind"], described["name"], described["constant"], described["depth"]) == (
        "HybridRetriever",
        "numbers + numbers",
        2,
        100,
    )
    assert described["parts"] == [own, own]


def test_where_the_folder_of_an_encoder_lies_is_not_described():
    encoder = EncoderSettings("/home/me/models/mini", "/home/me/models/asks", "", "query: ", " ", "cosine", 384)

    class Dense:
        manifest = SimpleNamespace(name="d", passages=1, source_hash="x", encoder=encoder)
        search = print

    described = describe(AlwaysRetrieve(Dense()))["index"]["encoder"]
    assert (described["model"], described["query_model"], described["query_prefix"]) == ("mini", "asks", "query: ")


@pytest.mark.parametrize(
    ("kind", "described"),
    [("TantivyRetriever", "BM25"), ("DenseRetriever", "dense"), ("HybridRetriever", "hybrid"), ("Own", "Own")],
)
def test_tables_name_the_kind_of_retriever(kind, described):
    header = RunHeader(
        method="rag",
        label="rag",
        dataset="d",
        split="",
        seed=0,
        ids=[],
        fingerprint="",
        command="",
        configuration={"index": {"kind": kind, "name": "numbers"}},
    )
    assert header.configuration.retriever == described


@pytest.mark.parametrize(("variant", "judge"), [("similar", 2), ("random", 2), ("none", 1)])
def test_demonstrations_are_counted_by_predictor(variant, judge):
    entries = [Entry(str(number), f"quiz {number}", f"passage {number}", True) for number in range(3)]
    program = KEQA(None, reference=UtilityReference(k=2, variant=variant).fit(entries))
    program.summarizing.summarize.demos = [{"question": "Who?"}] * 3
    program.picking.judge.demos = [{"quiz": "Who?"}]
    found = demonstrations_of(program)
    assert found.keys() == dict(program.named_predictors()).keys()
    assert {name: count for name, count in found.items() if count} == {
        "picking.judge": judge,
        "summarizing.summarize": 3,
    }
    assert demonstrations_of(AlwaysRetrieve(None)) == {"answer": 0}


def test_another_setting_of_the_language_model_is_another_run(scripted, tmp_path):
    def closed_book(effort):
        lm, engine = scripted(lambda name, inputs, config: {"answer": "Oslo"}, reasoning_effort=effort)
        lm.model = "scripted/one"
        program = ClosedBook()
        program.set_lm(lm)
        return program, engine

    question = [{"id": "q", "question": "Capital of Norway?", "answers": ["Oslo"]}]
    evaluate(closed_book("low")[0], question, out=tmp_path / "run.jsonl")
    other, engine = closed_book("high")
    with pytest.raises(InputError, match=r'models\.task\.reasoning_effort was "low", now "high"'):
        evaluate(other, question, out=tmp_path / "run.jsonl")
    assert engine.calls == []
