"""``keqa demo`` and ``keqa testbed``, with figures that are given, and the questions and the program that ship."""

import json
import re
from fractions import Fraction

import pytest
from fixtures.run_files import make_line, make_run

import keqa
from keqa.evaluation.demo import MethodResult
from keqa.evaluation.reports import entries_of
from keqa.testbed.boundary import Boundary, ExaminedFact
from keqa.testbed.check import SkillScore

pytestmark = pytest.mark.model


def result(method, scores, *, seconds, retrievals, calls, **of_second):
    """A row of four questions, by EM and F1."""
    costs = zip(scores, retrievals, calls, strict=True)
    lines = [
        make_line(number, em, f1, retrievals=searches, calls=asked, **of_second if number == 1 else {})
        for number, ((em, f1), searches, asked) in enumerate(costs)
    ]
    (entry,) = entries_of([make_run("keqa", lines, label=method)])
    return MethodResult(entry, seconds)


COSTS = {"seconds": 8.0, "retrievals": (1, 1, 1, 2), "calls": (17, 18, 17, 18)}
WEAK = result(
    "closed book", [(0, 0), (0, 0), (0, 0.5), (0, 0.5)], seconds=2.0, retrievals=(0,) * 4, calls=(1,) * 4, failed=True
)
KEQA = result("KEQA", [(1, 1), (0, 0.5), (1, 1), (1, 1)], **COSTS)
COMPILED = result("KEQA, compiled", [(1, 1)] * 4, seconds=8.0, retrievals=(1,) * 4, calls=(16,) * 4)
EXAMINED = [("often", 1, True), ("often", "2/5", True), ("never", "1/5", False)]
NOWHERE = ("--lm", "openai/scripted", "--api-base", "http://127.0.0.1:9/v1")


@pytest.fixture
def demo(keqa_command, monkeypatch):
    """Runs `keqa demo` with figures that are given, and returns how many questions were asked for."""

    def run(*arguments, rows=(WEAK, KEQA, COMPILED)):
        asked = []

        def run_demo(questions, progress):
            asked.append(questions)
            for row in rows:
                progress(row.method)
            return rows

        monkeypatch.setattr("keqa.evaluation.demo.run_demo", run_demo)
        return keqa_command("demo", *arguments).fine(), asked

    return run


def test_the_table_of_the_demo(demo):
    out, asked = demo("--questions", 4)
    assert asked == [4]
    rows = [re.split(r"\s{2,}", line.strip()) for line in out.splitlines()]
    # The compiled program leads by 1, 1, .5 and .5, above zero on every question.
    assert ["closed book", "0.25", "0.00", "+0.75*", "0.0", "1.0", "100", "0.50"] in rows
    assert ["KEQA", "0.88", "0.75", "+0.12", "1.2", "17.5", "100", "2.00"] in rows
    assert ["KEQA, compiled", "1.00", "1.00", "1.0", "16.0", "100", "2.00"] in rows
    assert "these alone: closed book 3/4 (F1 .333, EM .000); all questions of other rows." in out
    touched = result("KEQA", [(1, 1), (0, 0.5), (1, 1), (1, 1)], unreadable=1, **COSTS)
    figures = json.loads(demo("--json", rows=(touched, COMPILED))[0])["rows"][0]
    assert (figures["f1"]["mean"], figures["untouched"], figures["untouched_f1"]) == (0.875, 3, 1.0)


def test_the_program_that_ships_was_compiled_on_the_testbed_and_loads():
    pytest.importorskip("torch")
    from keqa.programs.saving import about

    testbed = keqa.Testbed()
    program = keqa.load("testbed", keqa.open_encyclopedia(testbed.passages), keqa.build_roles("keqa/tiny"))
    assert about("testbed")["questions"] == {"train": 200, "validation": 100}
    train = {question.id for question in testbed.train}
    assert {entry.root for entry in program.picking.reference.entries} <= train


def test_the_tiers_that_have_facts(keqa_command, monkeypatch):
    asked = []

    def draw(roles, *, facts, tries, progress):
        asked.append((roles.task.model, facts, tries))
        return Boundary(tuple(ExaminedFact(tier, Fraction(share), right) for tier, share, right in EXAMINED))

    monkeypatch.setattr("keqa.testbed.boundary.draw_boundary", draw)
    ended = keqa_command("testbed", "boundary", *NOWHERE, "--facts", 50, "--tries", 3)
    assert (ended.code, asked) == (0, [("openai/scripted", 50, 3)])
    rows = [line.split() for line in ended.out.splitlines()]
    assert [row for row in rows if row[:1] in (["often"], ["never"])] == [
        ["often", "2", "0.70", "0.50", "1.00"],
        ["never", "1", "0.20", "0.00", "0.00"],
    ]
    assert "AUROC, often against never: 1.000" in ended.out
    reported = keqa_command("testbed", "boundary", *NOWHERE, "--json").json()
    assert reported["auroc"] == reported["auroc_of_all"] == 1.0
    assert reported["tiers"][0] == {"tier": "often", "facts": 2, "consistency": 0.7, "known": 0.5, "right": 1.0}


def test_one_skill_is_checked_by_itself(keqa_command, monkeypatch):
    names = []

    def check(lm, *, asked, tasks, progress):
        names.extend(task.name for task in tasks)
        return [SkillScore("summarize", count, 95, 100, 100) for count in (0, 2, 8)]

    monkeypatch.setattr("keqa.testbed.check.check_skills", check)
    assert keqa_command("testbed", "check", *NOWHERE, "--skill", "summarize").code == 0
    assert names == ["summarize"]


def test_questions_to_try(keqa_command):
    out = keqa_command("testbed", "questions", "-n", 3).fine()
    lines = out.splitlines()
    assert [line.endswith("?") for line in lines] == [True, False] * 3
    assert all("in training: " in line for line in lines[1::2])
    assert keqa_command("testbed", "questions", "-n", 3, "--seed", 1).out != out
    rows = keqa_command("testbed", "questions", "-n", 2, "--split", "train", "--json").json()
    assert [set(row) for row in rows] == [{"id", "question", "answer", "kind", "tiers"}] * 2
