"""``keqa reproduce ks-llm``: the paper's rows and sweeps over documents that are made on the way."""

import json

import pytest
from fixtures.command_line import served_by
from servers.openai_server import OpenAIServer, markers

from keqa.evaluation.run_file import read_run

pytestmark = pytest.mark.server


def reply(messages, n, body):
    """A reply with every field that any of the rows asks for."""
    fields = {
        "subject": "Ann Berg",
        "triples": '["Ann Berg | mayor | Carmouth"]',
        "title": "Carmouth",
        "document": "Carmouth is a harbour. Its mayor is Ann Berg.",
        "reasoning": "So it is.",
        "answer": "Ann Berg",
    }
    asked = messages[0]["content"]
    return [
        markers(**{name: value for name, value in fields.items() if f"`{name}`" in asked.split("output fields")[1]})
    ]


@pytest.fixture
def served():
    with OpenAIServer(reply=reply) as running:
        yield served_by(running)


@pytest.fixture
def questions(write_json):
    rows = [{"id": str(n), "question": f"Who governs Carmouth{'?' * n}", "answer": "Ann Berg"} for n in (1, 2)]
    return write_json("two.jsonl", rows)


def test_rows_sweeps_and_documents_of_an_lm(keqa_command, served, questions, tmp_path):
    run = ("reproduce", "ks-llm", *served, "--data", questions, "--similarity", "words", "-o", tmp_path / "out")
    out = keqa_command(*run, "--json").fine()
    found = json.loads(out)
    assert list(found) == ["ks-llm-table1", "ks-llm-table2", "ks-llm-figure3", "ks-llm-table3"]
    assert [row["two.jsonl openai/scripted EM"] for row in found["ks-llm-table1"]] == [100] * 7
    assert [row["two.jsonl openai/scripted recall"] for row in found["ks-llm-table1"]] == [
        *(None, 100, 100, 100, None, 100, 100)
    ]
    assert [row["tokens"] for row in found["ks-llm-table2"]] == [None, 300, 500, 1000, 2000, None]
    assert [row["k"] for row in found["ks-llm-figure3"]][:5] == [1, 2, 3, 5, 10]
    documents = (tmp_path / "out" / "documents" / "two.jsonl.jsonl").read_text().splitlines()
    assert [json.loads(one)["passages"][0]["title"] for one in documents] == ["Carmouth"] * 2
    assert "| KS-LLM" in (tmp_path / "out" / "tables" / "ks-llm-table1.md").read_text()
    # Every row is zero-shot.
    headers = [read_run(path).header for path in (tmp_path / "out" / "two.jsonl").glob("*.jsonl")]
    assert len(headers) == 14
    assert {count for header in headers for count in header.demonstrations.values()} == {0}
    # What is finished is not asked again.
    assert keqa_command(*run, "--json").json() == found
