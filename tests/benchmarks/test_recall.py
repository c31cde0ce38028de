import json

import pytest
import recall
from common import Finds

from keqa.data.example import ContextPassage, Example, SupportingFact
from keqa.retrievers import Passage

BY_TITLE = recall.Benchmark("HotpotQA", "corpus.json", ("dev.json",), "title")
BY_TEXT = recall.Benchmark("NQ", "corpus.json", ("dev.jsonl",), "text")


def test_gold_is_named_by_title_or_by_the_whole_passage():
    context = (ContextPassage("A", "one  b", "supporting"), ContextPassage("A", "two", "distractor"))
    example = Example("1", "Who?", ("x",), supporting_facts=(SupportingFact("A", 0, ""),), context=context)
    assert recall.gold_keys(BY_TITLE, example) == {"A"}
    assert recall.gold_keys(BY_TEXT, example) == {"A one b"}


@pytest.mark.parametrize(("limit", "count"), [(None, 50), (50, 50), (20, 20), (1, 3)])
def test_fewer_passages_keep_every_gold_one_and_their_order(limit, count):
    passages = [Passage(str(number), f"T{number}", "text") for number in range(50)]
    kept = recall.chosen(BY_TITLE, passages, {"T3", "T40", "T41"}, limit)
    assert len(kept) == count
    assert {"3", "40", "41"} <= {one.id for one in kept}
    assert [int(one.id) for one in kept] == sorted(int(one.id) for one in kept)
    assert kept == recall.chosen(BY_TITLE, passages, {"T3", "T40", "T41"}, limit)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "hotpotqa"
    folder.mkdir()
    pages = [("Ann", "Ann lives in Berg."), ("Berg", "Berg is a town."), ("Cat", "A cat sleeps.")]
    (folder / "corpus.json").write_text(json.dumps([{"title": title, "text": text} for title, text in pages]))
    asked = [("Where does Ann live?", "Berg", ("Ann", "Berg")), ("Who is gone?", "Dan", ("Dan",))]
    records = [
        {"_id": question, "question": question, "answer": answer, "supporting_facts": [[title, 0] for title in titles]}
        for question, answer, titles in asked
    ]
    (folder / "dev.json").write_text(json.dumps([{**one, "context": [], "type": "bridge"} for one in records]))
    return tmp_path


def test_recall_is_that_of_the_gold_passages_and_questions_without_theirs_are_left_out(data):
    case = recall.Case.read(BY_TITLE, data, None)
    assert (case.questions, case.gold, case.left_out) == (["Where does Ann live?"], [{"Ann", "Berg"}], 1)
    assert [one.title for one in case.passages] == ["Ann", "Berg", "Cat"]
    assert case.recall(Finds("Berg", ["", ""])) == 0.5


def test_the_table_of_bm25(data, monkeypatch, capsys):
    monkeypatch.setattr(recall, "BENCHMARKS", (BY_TITLE,))
    assert recall.main([str(data), "--engine", "bm25", "--work", str(data / "work")]) == 0
    assert "0.500" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cluster", "gap"), [({}, -0.2), ({"bm25": 0.4, "dense": 0.5, "hybrid": 0.6}, 0.1)], ids=["embedded", "cluster"]
)
def test_how_far_an_engine_is_below_what_it_is_compared_with(data, cluster, gap):
    case = recall.Case.read(BY_TITLE, data, None)
    row, found = recall.row_of(case, {"bm25": 0.4, "dense": 0.5, "hybrid": 0.7}, cluster)
    assert (row["questions"], row["left out"], row["below"], found) == (1, 1, pytest.approx(gap), pytest.approx(gap))


def test_vectors_are_not_made_twice(data, monkeypatch):
    encoded = []

    def build_dense(passages, folder, progress):
        encoded.append(len(passages))
        progress(3, 3)

    case = recall.Case.read(BY_TITLE, data, None)
    known = recall.build_index(case.passages, data / "known").source_hash
    opened = recall.open_index
    monkeypatch.setattr(recall, "build_dense", build_dense)
    monkeypatch.setattr(recall, "open_index", lambda path: opened(data / "known"))
    for there, times in ((None, 1), ("of other passages", 2), (known, 2)):
        monkeypatch.setattr(recall, "facts_of", lambda folder, there=there: [{"source_hash": there}])
        found = dict(recall.prepared(case, data / "work", recall.ENGINES))
        assert len(encoded) == times
        assert list(found) == ["bm25", "dense", "hybrid"]


def test_missing_files_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        recall.main([str(tmp_path)])
    assert "2wikimultihopqa/2wikimultihopqa_corpus.json" in capsys.readouterr().err
