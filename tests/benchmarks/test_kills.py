import json
import sqlite3

import kills
import pytest
from kills import differences

pytestmark = pytest.mark.process

LINE = {"id": "q0", "answer": "Ann", "seconds": 1.0, "record": {"cost": {"by_role": {"task": {}}, "seconds": 1.0}}}


def written(folder, line=LINE, *, calls=2, cached=0, keys=("a", "b"), score="0.5", seconds="1.5"):
    folder.mkdir(parents=True)
    line["record"]["cost"]["by_role"]["task"] = {"calls": calls, "cached": cached, "samples": 2}
    (folder / "keqa.jsonl").write_text(json.dumps(line) + "\n")
    (folder / "table5.csv").write_text(f"method,F1,time,seconds everything else\nKEQA,{score},{seconds},{seconds}\n")
    (folder / "figure3.png").write_bytes(score.encode())
    with sqlite3.connect(folder / "calls.sqlite") as file:
        file.execute("create table calls (key text primary key, value text)")
        file.executemany("insert into calls values (?, ?)", [(key, seconds) for key in keys])
    file.close()
    return folder


def test_times_and_who_has_paid_make_no_difference(tmp_path):
    whole = written(tmp_path / "whole" / "out")
    killed = written(tmp_path / "killed" / "out", {**LINE, "seconds": 9.0}, calls=0, cached=2, seconds="7")
    assert differences(killed, whole) == []


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"line": {**LINE, "answer": "Bo"}}, "keqa.jsonl: [0].answer: Bo for Ann"),
        ({"calls": 3}, "keqa.jsonl: [0].record.cost.by_role.task.requests: 3 for 2"),
        ({"score": "0.6"}, "table5.csv: [1][1]: 0.6 for 0.5"),
        ({"keys": ("a",)}, "calls.sqlite: .calls: ['a'] for ['a', 'b']"),
    ],
)
def test_what_differs_is_reported_with_its_place(tmp_path, change, reported):
    whole = written(tmp_path / "whole" / "out")
    assert differences(written(tmp_path / "killed" / "out", **change), whole) == [reported]


def test_a_file_that_is_missing_or_left_over_is_a_difference(tmp_path):
    whole, killed = written(tmp_path / "whole" / "out"), written(tmp_path / "killed" / "out")
    (killed / "keqa.jsonl").rename(killed / ".keqa.jsonl.new")
    (tmp_path / "killed" / "out.building").touch()
    assert differences(killed, whole) == [
        "beside it: ['out', 'out.building'] for ['out']",
        ".keqa.jsonl.new: in one of the two only",
        "keqa.jsonl: in one of the two only",
    ]


@pytest.mark.parametrize("command", kills.COMMANDS)
def test_a_command_that_is_killed_leaves_what_one_leaves_that_is_not_and_makes_no_finished_call_again(command, capsys):
    assert kills.main(["--kills", "2", "--questions", "4", "--commands", command]) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["kills"], last["broken"]) == (2, {})
    assert last["rounds"] >= 1
    assert last["repeated"] <= last["in_flight"]
