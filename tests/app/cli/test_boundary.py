"""``keqa boundary``: collect, train and check on the language model that ships, and the gate in a comparison."""

import json
import re

import pytest

from keqa.evaluation.run_file import iter_lines, read_header

# What one test collects another one learns from.
pytestmark = [pytest.mark.model, pytest.mark.xdist_group("boundary")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("boundary")


def test_from_questions_to_a_gate(keqa_command, folder):
    train = ["boundary", "collect", "--testbed", "--program", "testbed", "--limit", 20, "--tries", 5]
    out = keqa_command(*train, "--out", folder / "train", "--json").fine()
    collected = json.loads(out)
    assert (collected["tries"], collected["left_out"]) == (5, 0)
    assert collected["quizzes"] >= 30
    assert 0.1 < collected["right"] < 0.9
    # Nothing is asked twice, and the file is the same.
    before = (folder / "train" / "quizzes.jsonl").read_bytes()
    assert keqa_command(*train, "--out", folder / "train", "--json").out == out
    assert (folder / "train" / "quizzes.jsonl").read_bytes() == before

    out = keqa_command("boundary", "train", folder / "train", "--out", folder / "model.json", "--json").fine()
    assert json.loads(out)["mastery"]["auroc"] > 0.7

    dev = ["boundary", "collect", "--testbed", "--split", "test", "--program", "testbed", "--limit", 5, "--tries", 5]
    assert keqa_command(*dev, "--out", folder / "test").code == 0
    ended = keqa_command("boundary", "check", folder / "model.json", folder / "test")
    assert (ended.code, "vote of the draws    5.00" in ended.out) == (0, True)
    keqa_command("boundary", "check", folder / "model.json", folder / "train").refused("has learned from all of these")
    # The same questions under other ids are no others.
    renamed = re.sub(r'"root":"[0-9a-f]{16}"', f'"root":"{"0" * 16}"', before.decode())
    (folder / "renamed.jsonl").write_text(renamed)
    keqa_command("boundary", "check", folder / "model.json", folder / "renamed.jsonl").refused("has learned from all")
    keqa_command("boundary", "train", folder / "test", "--out", folder / "no.json").refused(
        "test split: nothing learns from that"
    )
    assert not (folder / "no.json").exists()

    asked = ["--testbed", "--limit", 3, "--program", "testbed", "--out", folder / "runs", "--json"]
    keqa_command("compare", f"gate-boundary:model={folder / 'model.json'}", "gate-votes", *asked).fine()
    (run,) = (folder / "runs").glob("gate-boundary*.jsonl")
    gate = read_header(run).configuration.settings["gate"]
    assert (gate["kind"], gate["of"], gate["model"]["reads"]) == ("BoundaryGate", "mastery", "draft")
    # The folder of the model is in the name of no run and in no file.
    assert run.name == "gate-boundary-model=model.json.jsonl"
    assert folder.name not in run.read_text()
    quizzes = [quiz for line in iter_lines(run) for quiz in line.record.quizzes]
    drawn = [len(quiz.samples) for quiz in quizzes if quiz.samples]
    assert drawn
    assert min(drawn) == 1


def test_a_prompted_and_a_fine_tuned_model(keqa_command, folder):
    pytest.importorskip("peft")
    collected = folder / "train"
    if not collected.exists():
        asked = ["--testbed", "--program", "testbed", "--limit", 20, "--tries", 5]
        assert keqa_command("boundary", "collect", *asked, "--out", collected).code == 0
    how = ["--training", "method=lora,rank=2,epochs=1,batch=16"]
    keqa_command("boundary", "train", collected, "--kind", "finetuned", *how, "--out", folder / "kbm.json").fine()
    written = json.loads((folder / "kbm.json").read_text())
    assert (written["kind"], written["lm"], written["about"]["threshold"]) == ("finetuned", "kbm.json.lm", 0.9)
    keqa_command("boundary", "train", collected, "--kind", "prompted", "--out", folder / "asked.json").fine()
    assert json.loads((folder / "asked.json").read_text())["examples"]
    for name in ("kbm.json", "asked.json"):
        ended = keqa_command("boundary", "check", folder / name, collected, "--json")
        assert (ended.code, json.loads(ended.out)["quizzes"] > 0) == (0, True)


def test_another_split_does_not_take_the_place_of_what_was_collected(keqa_command, tmp_path):
    asked = ["boundary", "collect", "--testbed", "--limit", 2, "--tries", 5, "--out", tmp_path / "here"]
    assert keqa_command(*asked).code == 0
    keqa_command(*asked, "--split", "dev").refused("split was")


def test_a_benchmarks_file_is_one_split(keqa_command, tmp_path):
    questions = tmp_path / "NQ-open.dev.jsonl"
    questions.write_text('{"question": "Who governs Carmouth?", "answer": ["Ann Berg"]}\n')
    collect = ["boundary", "collect", "--questions", f"nq:{questions}", "--tries", 5, "--out", tmp_path / "out"]
    out = keqa_command(*collect).fine()
    assert "1 quizzes, 5 answers each" in out
    keqa_command(*collect, "--split", "train").refused("leave the split 'train' out")


def test_questions_without_an_answer_are_passed_over(keqa_command, tmp_path):
    questions = tmp_path / "own.jsonl"
    questions.write_text(
        '{"question": "Who governs Carmouth?", "answer": "Ann Berg"}\n{"id": "b", "question": "Why?", "answer": null}\n'
    )
    ended = keqa_command("boundary", "collect", "-q", questions, "--tries", 5, "--out", tmp_path / "out")
    assert (ended.code, ended.err.strip()) == (0, "passed over: b: there is no answer")
    assert "1 quizzes, 5 answers each" in ended.out


def test_draws_from_passages_only_where_an_index_is_named(keqa_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keqa.toml").write_text('index = "somewhere"\n')
    asked = ["boundary", "collect", "--testbed", "--limit", 2, "--tries", 5, "--json"]
    plain = keqa_command(*asked, "--out", tmp_path / "plain").json()
    assert (plain["quizzes"], "retrieved quizzes" in plain) == (3, False)
    both = keqa_command(*asked, "--index", "testbed", "--out", tmp_path / "both").json()
    assert (both["quizzes"], both["retrieved quizzes"]) == (3, 3)
    lines = (tmp_path / "both" / "quizzes.jsonl").read_text().splitlines()[1:]
    assert [json.loads(one)["reference"] is None for one in lines] == [True] * 3 + [False] * 3
    assert [json.loads(one)["quiz"] for one in lines[:3]] == [json.loads(one)["quiz"] for one in lines[3:]]
