"""``keqa boundary train --outcomes``: models from what was recorded, with no language model."""

import json

import pytest
from fixtures.choosers import chooser
from fixtures.outcomes import outcomes

from keqa.programs.boundary import read_model
from keqa.programs.boundary.chooser import read_chooser


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("outcomes") / "log.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in outcomes(60)))
    return path


def test_a_boundary_model_for_gates(keqa_command, log, tmp_path):
    train = ["boundary", "train", "--outcomes", log, "--reads", "quiz", "--out", tmp_path / "model.json", "--json"]
    assert json.loads(keqa_command(*train).fine())["mastery"]["auroc"] > 0.9
    assert read_model(tmp_path / "model.json").reads == "quiz"


@pytest.mark.slow
def test_a_chooser_that_asks_on_where_it_costs_nothing(keqa_command, log, tmp_path):
    out = tmp_path / "chooser.json"
    train = ["boundary", "train", "--outcomes", log, "--kind", "chooser", "--cost-per-call", 0, "--out", out, "--json"]
    found = json.loads(keqa_command(*train).fine())
    assert found["right"] > 0.9
    assert found["settled"].keys() == {"draft", "reading", "quizzes"}
    assert [step.cost for step in read_chooser(out).steps] == [0.02, 0.05, 0.0]


def test_a_file_that_is_another_one_is_told_what_it_is(keqa_command, log, tmp_path):
    model = tmp_path / "chooser.json"
    model.write_text(json.dumps(chooser(0.9).written()))
    keqa_command("boundary", "check", model, log).refused("chooser.json is no boundary model but a chooser")
    keqa_command("boundary", "train", log, "--out", tmp_path / "no.json").refused(
        "are for keqa boundary train --outcomes"
    )


@pytest.mark.model
def test_a_chooser_that_nobody_would_ask_is_refused(keqa_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chooser.json").write_text(json.dumps(chooser(0.9).written()))
    chosen, asked = ["--chooser", "chooser.json"], ["--testbed", "--limit", 1]
    for command in (["ask", "Who governs Carmouth?"], ["evaluate", "keqa", *asked], ["compare", "rag", "keqa", *asked]):
        keqa_command(*command, *chosen).refused("--chooser needs --settle cascade")
    keqa_command("evaluate", "keqa:chooser=chooser.json", *asked).refused("--chooser needs --settle cascade")
    keqa_command("compile", *asked, "--val-limit", 1, "--out", "program", *chosen, "--dry-run").refused(
        "--chooser needs"
    )
    keqa_command("evaluate", "keqa", *asked, *chosen, "--settle", "cascade").fine()
    keqa_command("compare", "keqa", "keqa:settle=cascade", *asked, *chosen, "--out", "both").fine()
    # What a file sets for all commands is passed over where it means nothing.
    (tmp_path / "keqa.toml").write_text('chooser = "chooser.json"\n')
    keqa_command("config", "trust").fine()
    keqa_command("ask", "Who governs Carmouth?").fine()
