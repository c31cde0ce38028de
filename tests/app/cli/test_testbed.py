import json
from fractions import Fraction

import pytest

from keqa.testbed.boundary import Boundary, Examined
from keqa.testbed.check import SkillScore

pytestmark = pytest.mark.model

FOUND = Boundary(
    tuple(
        Examined(tier, Fraction(consistency), right)
        for tier, consistency, right in [("often", 1, True), ("often", "2/5", True), ("never", "1/5", False)]
    )
)


@pytest.fixture
def boundary(keqa_command, monkeypatch):
    """Runs `keqa testbed boundary` with what is found given, and returns what was asked for."""
    asked = []

    def draw(roles, *, facts, tries, progress):
        asked.append((roles.task.model, facts, tries))
        return FOUND

    monkeypatch.setattr("keqa.testbed.boundary.draw_boundary", draw)
    lm = ["--lm", "openai/scripted", "--api-base", "http://127.0.0.1:9/v1"]
    return lambda *arguments: (keqa_command("testbed", "boundary", *lm, *arguments), asked)


def test_the_tiers_that_have_facts(boundary):
    ended, asked = boundary("--facts", 50, "--tries", 3)
    assert (ended.code, asked) == (0, [("openai/scripted", 50, 3)])
    rows = [line.split() for line in ended.out.splitlines()]
    assert [row for row in rows if row[:1] in (["often"], ["never"])] == [
        ["often", "2", "0.70", "0.50", "1.00"],
        ["never", "1", "0.20", "0.00", "0.00"],
    ]
    assert "AUROC, often against never: 1.000" in ended.out


def test_the_figures_as_json(boundary):
    ended, _ = boundary("--json")
    reported = json.loads(ended.out)
    assert reported["auroc"] == reported["auroc_of_all"] == 1.0
    assert reported["tiers"][0] == {"tier": "often", "facts": 2, "consistency": 0.7, "known": 0.5, "right": 1.0}


def test_one_skill_is_checked_by_itself(keqa_command, monkeypatch):
    def check(lm, *, asked: int, tasks, progress):
        names.extend(task.name for task in tasks)
        return [SkillScore("summarize", count, 95, 100, 100) for count in (0, 2, 8)]

    names: list[str] = []
    monkeypatch.setattr("keqa.testbed.check.check_skills", check)
    lm = ["--lm", "openai/scripted", "--api-base", "http://127.0.0.1:9/v1"]
    assert keqa_command("testbed", "check", *lm, "--skill", "summarize").code == 0
    assert names == ["summarize"]
    ended = keqa_command("testbed", "check", *lm, "--skill", "juggle")
    assert ended.code == 2
    assert "there is no skill 'juggle'; there are 'decompose', 'judge consistency'" in ended.err.replace("\n", " ")


def test_questions_to_try(keqa_command):
    ended = keqa_command("testbed", "questions", "-n", 3)
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) == 6
    assert all(line.endswith("?") for line in lines[::2])
    assert all("in training: " in line for line in lines[1::2])
    assert keqa_command("testbed", "questions", "-n", 3, "--seed", 1).out != ended.out
    rows = json.loads(keqa_command("testbed", "questions", "-n", 2, "--split", "train", "--json").out)
    assert [set(row) for row in rows] == [{"id", "question", "answer", "kind", "tiers"}] * 2
    assert "there is no split 'all'" in keqa_command("testbed", "questions", "--split", "all").err
