import json
import sys

import ks_llm
import numpy as np
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


def measuring(**near):
    """A measure by which what is wanted is near one sentence each, by its place."""

    def measure(wanted, sentences):
        return np.array([[float(near.get(one, 0) != place) for place in range(len(sentences))] for one in wanted])

    return measure


def test_what_is_measured_of_a_question(context):
    # The question, and both triples as one text, are near the first sentence.
    found = dict(ks_llm.selections(context, measuring(**{"Carmouth mayor Ann Berg": 1, "Skarn sells fish": 2})))
    two = ks_llm.KEPT.index(2)
    selected = [found[name][two] for name in ("question", "gold triples", "gold triples, joined")]
    assert selected == [[0, 1], [1, 2], [0, 1]]
    assert ks_llm.scored(context, found["question"])[:6] == [0, 0.5, 1, 1, 1, 0]
    assert ks_llm.scored(context, found["gold triples"])[two] == 1
    assert "written triples" not in found


@pytest.mark.parametrize(("written", "selected"), [(["Carmouth | mayor | ?"], [1]), ([], [0])])
def test_written_triples_select_and_the_question_does_where_there_is_none(context, written, selected):
    found = dict(ks_llm.selections(context, measuring(**{"Carmouth mayor ?": 1}), written))
    assert found["written triples"][ks_llm.KEPT.index(1)] == selected


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
