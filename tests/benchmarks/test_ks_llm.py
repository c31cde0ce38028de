import json
import sys

import ks_llm
import pytest

from keqa.programs.stages.selection import DistanceMeter

RECORD = {
    "_id": "q",
    "question": "Who governs Carmouth?",
    "answer": "Ann Berg",
    "context": [["Carmouth", ["It is old.", " ", "Its mayor is Ann Berg."]], ["Skarn", ["Fish."]]],
    "supporting_facts": [["Carmouth", 2], ["Skarn", 0], ["Elsewhere", 0]],
    "evidences": [["Carmouth", "mayor", "Ann Berg"], ["Skarn", "sells", "fish"]],
}


@pytest.fixture
def context(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps([RECORD]))
    (found,) = ks_llm.contexts(path)
    return found


def test_the_sentences_of_a_context_and_those_that_are_needed(context):
    assert context.sentences == ("It is old.", "Its mayor is Ann Berg.", "Fish.")
    assert context.needed == {1, 2}


def test_the_tables_without_a_model(tmp_path, monkeypatch, capsys):
    for file in ks_llm.SETS.values():
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(json.dumps([RECORD]))
    monkeypatch.setattr(ks_llm, "DistanceMeter", lambda embedder, distance: DistanceMeter(None, distance))
    monkeypatch.setattr(sys, "argv", ["ks_llm.py", "--data", str(tmp_path)])
    ks_llm.main()
    out = capsys.readouterr().out
    assert "hotpotqa: 1 questions, 3.0 sentences each" in out
    assert out.count("MiniLM, cosine") == 6
    assert out.count("Euclid and cosine select other sentences at k=2 for 0 questions") == 2
