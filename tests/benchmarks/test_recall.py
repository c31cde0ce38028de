import json

import pytest
import recall
from common import Finds

from keqa.data.example import ContextPassage, Example

BY_TITLE = recall.Benchmark("HotpotQA", "corpus.json", ("dev.json",), "title")


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
    # Of fewer passages the gold ones are kept.
    assert [one.title for one in recall.Case.read(BY_TITLE, data, 1).passages] == ["Ann", "Berg"]
    by_text = Example(
        "1", "Who?", ("x",), context=(ContextPassage("A", "one  b", "supporting"), ContextPassage("A", ""))
    )
    assert recall.gold_keys(recall.Benchmark("NQ", "", (), "text"), by_text) == {"A one b"}


def test_the_table_of_bm25(data, monkeypatch, capsys):
    monkeypatch.setattr(recall, "BENCHMARKS", (BY_TITLE,))
    assert recall.main([str(data), "--engine", "bm25", "--work", str(data / "work")]) == 0
    assert "0.500" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        recall.main([str(data / "work")])
    assert "hotpotqa/corpus.json" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_of_eight_languages_is_searched_as_well_as_separate_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(recall, "_TOWNS", 8)
    assert recall.main([str(tmp_path), "--languages"]) == 0
