import json
import re
from dataclasses import replace

import pytest

from keqa.evaluation.demo import DemoResult, MethodResult

pytestmark = pytest.mark.model

WEAK = MethodResult("closed book", (0.0, 0.0, 0.5, 0.5), (0.0, 0.0, 0.0, 0.0), 0.0, 1.0, 2.0, 1)
KEQA = MethodResult("KEQA", (1.0, 0.5, 1.0, 1.0), (1.0, 0.0, 1.0, 1.0), 1.25, 17.5, 8.0, 0)
COMPILED = MethodResult("KEQA, compiled", (1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0), 1.0, 16.0, 8.0, 0)


@pytest.fixture
def demo(keqa_command, monkeypatch):
    """Runs `keqa demo` with figures that are given, and returns how many questions were asked for."""
    asked = []

    def run_demo(questions, progress):
        asked.append(questions)
        for method in ("closed book", "KEQA", "KEQA, compiled"):
            for _ in range(questions):
                progress(method)
        return DemoResult(4, (WEAK, KEQA, COMPILED))

    monkeypatch.setattr("keqa.evaluation.demo.run_demo", run_demo)
    return lambda *arguments: (keqa_command("demo", *arguments), asked)


def test_the_table(demo):
    ended, asked = demo("--questions", 4)
    assert (ended.code, asked) == (0, [4])
    (weak,) = [line for line in ended.out.splitlines() if "closed book" in line]
    cells = re.split(r"\s{2,}", weak.strip())
    # The compiled program leads by 1, 1, .5 and .5, above zero on every question.
    assert cells == ["closed book", "0.25", "0.00", "+0.75*", "0.0", "1.0", "0.50", "1"]
    (keqa,) = [line for line in ended.out.splitlines() if line.strip().startswith("KEQA ")]
    assert re.split(r"\s{2,}", keqa.strip()) == ["KEQA", "0.88", "0.75", "+0.12", "1.2", "17.5", "2.00", "0"]
    (compiled,) = [line for line in ended.out.splitlines() if line.strip().startswith("KEQA, compiled")]
    assert re.split(r"\s{2,}", compiled.strip()) == ["KEQA, compiled", "1.00", "1.00", "1.0", "16.0", "2.00", "0"]


def test_questions_that_a_failure_touched_are_distinguished(demo, monkeypatch):
    ended, _ = demo()
    assert "Untouched by failures: all 4 questions of every row." in ended.out
    touched = replace(KEQA, touched=(False, True, False, False))
    monkeypatch.setattr("keqa.evaluation.demo.run_demo", lambda questions, progress: DemoResult(4, (touched, COMPILED)))
    ended = demo()[0]
    assert "Untouched by failures, of 4: KEQA 3 (F1 1.00, EM 1.00); all of the other rows." in " ".join(
        ended.out.split()
    )
    figures = json.loads(demo("--json")[0].out)["rows"][0]
    assert (figures["f1"]["mean"], figures["untouched"], figures["untouched_f1"]) == (0.875, 3, 1.0)


def test_the_figures_as_json_and_nothing_else(demo):
    ended, asked = demo("--json")
    assert (ended.code, asked) == (0, [60])
    figures = json.loads(ended.out)
    assert figures["questions"] == 4
    weak, keqa, compiled = figures["rows"]
    assert weak["f1"]["mean"] == 0.25
    assert weak["lead_in_f1"]["mean"] == 0.75
    assert keqa["lead_in_f1"]["mean"] == 0.125
    assert keqa["lm_calls_per_question"] == 17.5
    assert compiled["lead_in_f1"] is None


def test_the_program_that_ships_was_compiled_on_the_testbed_and_loads():
    pytest.importorskip("torch")
    import keqa
    from keqa.programs.saving.folder import about

    testbed = keqa.Testbed()
    program = keqa.load("testbed", keqa.open_encyclopedia(testbed.passages), keqa.build_roles("keqa/tiny"))
    assert about("testbed")["questions"] == {"train": 200, "validation": 100}
    train = {question.id for question in testbed.train}
    assert {entry.root for entry in program.picking.reference.entries} <= train
