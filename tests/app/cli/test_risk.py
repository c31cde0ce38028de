"""``--risk``: what is refused before anything is asked, and what is said of an answer that is withheld."""

import json
import re
from types import SimpleNamespace

import pytest
from servers.openai_server import markers

from keqa.cli.evaluate import held_spec
from keqa.cli.options import RiskOptions
from keqa.errors import InputError
from keqa.evaluation.run_file import iter_lines
from keqa.programs.registry import parse_spec


def test_the_method_of_the_run_file_is_compared_once_more(tmp_path, monkeypatch):
    header = SimpleNamespace(method="rag", label="rag-top_k=5")
    monkeypatch.setattr("keqa.evaluation.run_file.read_header", lambda path: header)
    file = tmp_path / "run.jsonl"
    specs = [parse_spec(name) for name in ("keqa", "rag:top_k=5", "rag")]
    held = held_spec(specs, RiskOptions(0.1, file))
    assert (held.method.name, held.arguments, held.label) == ("rag", {"top_k": 5}, "rag-top_k=5-risk=0.1")
    assert held_spec([specs[0], specs[2]], RiskOptions(0.1, file)).label == "rag-risk=0.1"
    assert held_spec(specs, RiskOptions()) is None
    with pytest.raises(InputError, match="holds answers of rag-top_k=5, and none of the methods is: name that one"):
        held_spec(specs[:1], RiskOptions(0.1, file))
    with pytest.raises(InputError, match="several of the methods are"):
        held_spec([parse_spec("rag:top_k=1"), specs[2]], RiskOptions(0.1, file))


@pytest.mark.server
def test_a_comparison_has_a_row_that_holds_the_risk_or_asks_nothing(keqa_command, server, served, write_json, tmp_path):
    lm = (*served, "--no-cache")
    server.reply = lambda messages, n, body: [answer_of(messages[-1]["content"])] * n
    for name, numbers in (("dev", range(80)), ("test", range(80, 90))):
        lines = [
            {"question": f"Who governs Town{n}?" if n % 2 else f"Who built Bridge{n}?", "answer": f"Somebody{n}"}
            for n in numbers
        ]
        write_json(f"{name}.jsonl", lines)
    keqa_command("evaluate", "closed-book", "-q", tmp_path / "dev.jsonl", *lm, "-o", tmp_path / "runs").fine()
    calls = len(server.calls)
    risk = ("--calibrated-on", tmp_path / "runs" / "closed-book.jsonl", "--out", tmp_path / "held")
    others = ("compare", "closed-book", "-q", tmp_path / "test.jsonl", *lm, *risk)
    refused = keqa_command(*others, "--risk", "0.001")
    assert (refused.code, len(server.calls)) == (2, calls)
    assert "no threshold holds a risk of 0.001" in refused.err
    ended = keqa_command(*others, "--risk", "0.3", "--json")
    assert ended.code == 0, ended.err
    assert "expects to say" in ended.err
    assert [row["label"] for row in json.loads(ended.out)] == ["closed-book", "closed-book-risk=0.3"]
    answers = [
        {line.answer for line in iter_lines(tmp_path / "held" / f"{label}.jsonl")}
        for label in ("closed-book", "closed-book-risk=0.3")
    ]
    assert "I do not know" not in answers[0]
    assert "Nobody" in answers[0]
    assert "Nobody" not in answers[1]
    flattering = keqa_command("compare", "closed-book", "-q", tmp_path / "dev.jsonl", *lm, *risk, "--risk", "0.3")
    assert flattering.code == 2
    assert "80 of the questions are those of" in flattering.err


def answer_of(prompt):
    town = re.findall(r"Who governs Town(\d+)\?", prompt)
    return markers(answer=f"Somebody{town[-1]}" if town else "Nobody")
