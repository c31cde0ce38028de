"""A run in a process of its own, killed again and again at moments drawn at random, then let to its end."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter

import pytest
from fixtures.run_files import without_seconds
from servers.openai_server import OpenAIServer, markers
from servers.process import start

from keqa.evaluation.run_file import iter_lines, read_run

pytestmark = pytest.mark.process

QUESTIONS, MOMENTS, IN_FLIGHT = 300, 10, 4
ATTEMPTS = 6


def reply(messages, n, body):
    """Always the same to the same; every seventh cannot be parsed."""
    number = int(asked(body))
    return ["I would rather not say."] * n if number % 7 == 0 else [markers(answer=f"Mayor{number % 5}")] * n


def asked(body):
    """The number of the question that a call was made for."""
    return re.findall(r"Town(\d+)", body["messages"][-1]["content"])[0]


def content(path):
    run = read_run(path)
    return [run.header.model_dump(), *(without_seconds(line.model_dump()) for line in run.lines)]


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    rows = [
        {"id": f"q{n}", "question": f"Who governs Town{n}?", "answers": [f"Mayor{n % 5}", f"Bo Mayor{n % 5}"]}
        for n in range(QUESTIONS)
    ]
    (tmp_path / "towns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)

    def run(server, label):
        arguments = ["evaluate", "closed-book", "--questions", tmp_path / "towns.jsonl", "--out", tmp_path / "runs"]
        arguments += ["--lm", "openai/scripted", "--api-base", server.api_base, "--label", label, "--no-cache"]
        return start([*arguments, "--index", tmp_path / "index", "--in-flight", IN_FLIGHT])

    from keqa.retrievers import Passage, build_index

    build_index([Passage("p", "Town", "A town.")], tmp_path / "index")
    return run


def test_killed_at_ten_moments_no_finished_question_is_asked_again(command, tmp_path):
    with OpenAIServer(reply=reply) as server:
        process = command(server, "whole")
        process.join()
        assert process.exitcode == 0
        needed = {str(n): 1 if n % 7 else ATTEMPTS for n in range(QUESTIONS)}
        assert Counter(asked(call.body) for call in server.calls) == needed
    path = tmp_path / "runs" / "killed.jsonl"
    rng = random.Random(7)
    moments = sorted(rng.sample(range(5, QUESTIONS), MOMENTS))
    finished: list[tuple[int, set[str]]] = []
    with OpenAIServer(reply=reply) as server:
        for moment in moments:
            process = command(server, "killed")
            while server.count < moment and process.is_alive():
                time.sleep(0.002)
            process.kill()
            process.join()
            finished.append((server.count, {line.id for line in iter_lines(path)}))
        process = command(server, "killed")
        process.join()
        assert process.exitcode == 0
        calls = [f"q{asked(call.body)}" for call in server.calls]
    for before, ids in finished:
        assert not ids & set(calls[before:])
    assert set(calls) == {f"q{n}" for n in range(QUESTIONS)}
    # What was in work at a kill is asked again, and nothing else.
    whole_run = sum(needed.values())
    assert whole_run < len(calls) <= whole_run + MOMENTS * IN_FLIGHT * ATTEMPTS
    (killed, *lines), (whole, *expected) = content(path), content(path.with_name("whole.jsonl"))
    assert lines == expected
    assert {**killed, "label": "", "command": ""} == {**whole, "label": "", "command": ""}
    run = read_run(path)
    assert run.finished
    assert [line.id for line in run.failed] == [f"q{n}" for n in range(0, QUESTIONS, 7)]
    assert {line.error.cause for line in run.failed} == {"AdapterParseError"}
