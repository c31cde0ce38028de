"""A compilation in a process of its own, killed again and again at points drawn at random, then let to its end."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from servers.openai_server import OpenAIServer, markers
from servers.process import start

from keqa.retrievers import Passage, build_index

pytestmark = pytest.mark.process

POINTS = 10
IN_FLIGHT = 2
CALLS = 6
"""So many of a question are in work at once at most: each of two passages, for it and its two quizzes."""


def given(messages):
    """The fields of the last message."""
    sections = messages[-1]["content"].split("[[ ## ")[1:]
    pairs = (section.split(" ## ]]\n", 1) for section in sections if " ## ]]\n" in section)
    return {name: text.split("\n\nRespond with")[0].strip() for name, text in pairs}


def reply(messages, n, body):
    """Always the same to the same: a mayor known by heart, a spouse to be looked up."""
    fields, shown = given(messages), len(messages) > 2
    number = "".join(char for char in str(list(fields.values())) if char.isdigit())[:1]
    if "passage" in fields:
        return [markers(helpful="married" in fields["passage"])] * n
    if "first_answer" in fields:
        return [markers(same=False)] * n
    if "answered_quizzes" in fields:
        answer = fields["answered_quizzes"].rstrip('"]').split("? ")[-1]
        return [markers(explanation="So.", answer=answer)] * n
    if "passages" in fields:
        told = "Spouse" in fields["passages"]
        answer = (f"Ann Spouse{number}" if shown else f"Spouse{number}") if told else "unknown"
        return [markers(reasoning="So.", answer=answer)] * n
    if "quiz" in fields:
        return [markers(answer=f"Bo Mayor{number}" if "governs" in fields["quiz"] else f"guess {i}") for i in range(n)]
    if "answer_type" in fields:
        return [markers(reasoning="So.", answer="unknown")] * n
    return [markers(quizzes=f'["Who governs Town{number}?", "To whom is #1 married?"]')] * n


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    passages = [Passage(f"m{n}", f"Bo Mayor{n}", f"Mayor of Town{n}, married to Ann Spouse{n}.") for n in range(9)] + [
        Passage(f"o{n}", f"Bo Mayor{n}", f"He likes to sail near Town{n}.") for n in range(9)
    ]
    build_index(passages, tmp_path / "index")
    rows = [
        {
            "question": f"To whom is the mayor of Town{n} married?",
            "answer": f"Ann Spouse{n}",
            "quizzes": [f"Who governs Town{n}?", "To whom is #1 married?"],
            "quiz_answers": [f"Bo Mayor{n}", f"Ann Spouse{n}"],
        }
        for n in range(9)
    ]
    for name, part in (("train", rows[:6]), ("val", rows[6:])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))

    def run(server: OpenAIServer, out: Path) -> BaseProcess:
        arguments = [
            "compile",
            tmp_path / "train.jsonl",
            "--val",
            tmp_path / "val.jsonl",
            "--index",
            tmp_path / "index",
        ]
        arguments += ["--lm", "openai/scripted", "--api-base", server.api_base, "--out", out, "--tries", 3]
        return start([*arguments, "--top-k", 2, "--sets", 1, "--in-flight", IN_FLIGHT, "--no-tuning"])

    return run


def finish(process: BaseProcess) -> None:
    process.join()
    assert process.exitcode == 0


def compiled(folder):
    """What a program's folder says, without what depends on the run."""
    state = json.loads((folder / "program.json").read_text())
    for name in ("created", "about"):
        del state[name]
    return state, (folder / "reference.jsonl").read_text()


def test_killed_at_ten_points_no_finished_call_is_made_again(command, tmp_path):
    with OpenAIServer(reply=reply) as server:
        finish(command(server, tmp_path / "whole"))
        whole = Counter(json.dumps(call.body, sort_keys=True) for call in server.calls)
    rng = random.Random(4)
    points = sorted(rng.sample(range(2, whole.total()), POINTS))
    with OpenAIServer(reply=reply) as server:
        for point in points:
            process = command(server, tmp_path / "killed")
            while server.count < point and process.is_alive():
                time.sleep(0.002)
            process.kill()
            process.join()
        finish(command(server, tmp_path / "killed"))
        asked = Counter(json.dumps(call.body, sort_keys=True) for call in server.calls)
    assert compiled(tmp_path / "killed") == compiled(tmp_path / "whole")
    assert not whole - asked
    # Only calls that were in work at a kill are made again, at most as many at each as may be in work.
    assert 0 < (asked - whole).total() <= POINTS * IN_FLIGHT * CALLS < whole.total()
