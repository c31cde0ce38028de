"""``keqa documents``, and reading what it made."""

import json

import pytest

pytestmark = pytest.mark.server


@pytest.fixture
def questions(write_json):
    rows = [
        {"id": "a", "question": "Who governs the harbour of Carmouth?", "answer": "Heidi Fenman"},
        {"id": "b", "question": "To whom is Heidi Fenman married?", "answer": "Flora Isvik"},
    ]
    return write_json("questions.jsonl", rows)


def test_documents_of_an_index_are_made_and_read(keqa_command, served, own_index, questions, tmp_path):
    out = tmp_path / "documents.jsonl"
    command = ("documents", "-q", questions, "--from", "index", "--index", own_index, "--top-k", 1, "-o", out)
    made = keqa_command(*command).fine()
    assert "2 documents written" in made
    assert [len(json.loads(line)["passages"]) for line in out.read_text().splitlines()] == [1, 1]
    again = keqa_command(*command, "--json").json()
    assert (again["written"], again["there"], again["without"]) == (0, 2, 0)
    run = ("evaluate", "standard-doc", "-q", questions, "--index", f"documents:{out}", *served, "--json")
    keqa_command(*run, "-o", tmp_path / "run").fine()
    header = json.loads((tmp_path / "run" / "standard-doc.jsonl").read_text().splitlines()[0])["header"]
    assert header["configuration"]["index"]["kind"] == "DocumentsRetriever"
    assert "--index documents:documents.jsonl" in header["command"]
    info = keqa_command("index", "info", f"documents:{out}").fine()
    assert "documents" in info


def test_documents_for_the_testbed_are_read_by_the_model_that_ships(keqa_command, tmp_path):
    out = tmp_path / "documents.jsonl"
    keqa_command("documents", "--testbed", "--limit", 2, "--from", "index", "-o", out).fine()
    found = keqa_command("search", json.loads(out.read_text().splitlines()[0])["question"], "-i", f"documents:{out}")
    assert "10 passages" in found.out
    refused = keqa_command("ask", "Who?", "--index", f"documents:{out}", "--method", "standard-doc")
    assert (refused.code, "has no document for the question 'Who?'" in refused.err) == (1, True)


def test_a_question_without_contexts_gets_no_document(keqa_command, questions, tmp_path):
    ended = keqa_command("documents", "-q", questions, "-o", tmp_path / "documents.jsonl", "--from", "contexts")
    assert (ended.code, "no document for a: no passages come with it" in ended.err) == (1, True)
