"""A server that cannot be asked ends a command before its first question, and leaves nothing behind."""

import pytest
from fixtures.run_files import towns
from servers.openai_server import FaultPlan, OpenAIServer, markers

from keqa.evaluation.run_file import read_run

pytestmark = pytest.mark.server


@pytest.fixture
def own(write_json):
    return write_json("towns.jsonl", towns(30))


@pytest.mark.parametrize("role", ["", "utility-"])
def test_every_command_that_asks_finds_a_dead_server_first(keqa_command, own, dead, tmp_path, role):
    lm = ["--lm", "openai/m", "--api-base", dead]
    if role:
        lm = ["--lm", "keqa/tiny", f"--{role}lm", "openai/m", f"--{role}api-base", dead]
    run = ["--testbed", "--limit", 2, "--out", tmp_path / "runs"]
    commands = (
        ("ask", "Who governs Carmouth?"),
        ("evaluate", "keqa", *run),
        ("compare", "keqa", "rag", *run),
        ("compile", "--testbed", "--limit", 2, "--out", tmp_path / "program"),
    )
    for command in commands:
        ended = keqa_command(*command, *lm)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.count("\n") <= 2
        assert f"openai/m cannot be reached: {dead} refuses the connection" in ended.err
    assert list((tmp_path / "runs").glob("*.jsonl")) == []


def test_a_run_that_is_finished_asks_nobody(keqa_command, own, tmp_path):
    with OpenAIServer(lambda messages, n, body: [markers(answer="x")] * n, models=("m",)) as server:
        command = ("evaluate", "closed-book", "-q", own, "--out", tmp_path, "--lm", "openai/m", "--api-base")
        address = server.api_base
        first = keqa_command(*command, address)
    assert first.code == 0
    again = keqa_command(*command, address)
    assert (again.code, again.out) == (0, first.out)


def test_a_run_stops_after_an_outage_and_resumes(keqa_command, own, tmp_path, monkeypatch):
    monkeypatch.setattr("dspy.clients.execution._delay", lambda error, attempt: 0.0)
    down = iter(range(10**6))
    plan = FaultPlan(share=1.0, kinds=("500",), only=lambda body: "Hello" not in str(body) and next(down) >= 3)
    command = ("evaluate", "closed-book", "-q", own, "--out", tmp_path, "--lm", "openai/m", "--in-flight", 1)
    with OpenAIServer(lambda messages, n, body: [markers(answer="x")] * n, faults=plan) as server:
        ended = keqa_command(*command, "--api-base", server.api_base, "--stop-after-outages", 4)
        assert ended.code == 2
        assert "4 questions in succession failed" in ended.err
        assert "7 of 30 questions were asked" in ended.err
        assert "run the same command with --retry-failed" in ended.err
        assert [line.failed for line in read_run(tmp_path / "closed-book.jsonl").lines] == [False] * 3 + [True] * 4
        server.faults = None
        healed = keqa_command(*command, "--api-base", server.api_base, "--retry-failed")
    assert healed.code == 0
    assert len(read_run(tmp_path / "closed-book.jsonl").lines) == 30
    assert read_run(tmp_path / "closed-book.jsonl").failed == []
