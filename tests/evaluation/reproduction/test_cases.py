"""Cases of ``keqa reproduce``: how they are read, and figures of what their commands wrote."""

import re
import subprocess
from contextlib import nullcontext, suppress

import pytest
from fixtures.run_files import make_line, make_run, write_run
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.evaluation.reproduction.cases import Case, Checked, Expected, case_names, check, find, load_case, read_case

GOOD = """\
what: A method is measured
command: keqa evaluate keqa --testbed --out {folder}
figures:
  - {name: F1, run: keqa, measure: f1, kind: bridge, expected: 0.5, tolerance: 0.1}
  - name: questions
    at: questions
    expected: 60
    tolerance: 0
"""
SOURCES = "give either 'at', or 'run' and 'measure', or 'table'"


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return path

    return write


def test_every_case_that_comes_with_this_version_can_be_read(file):
    assert "demo" in case_names()
    for name in case_names():
        case = load_case(name)
        assert case.name == name
        assert all(figure.tolerance > 0 for figure in case.figures)
    mine = load_case(str(file(GOOD)))
    assert (mine.name, mine.first, mine.exit_code, [one.name for one in mine.figures]) == (
        *("mine", [], 0, ["F1", "questions"]),
    )
    with pytest.raises(InputError, match=r"nothing called 'dmeo' to reproduce. There are .*demo"):
        load_case("dmeo")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("what: A", "what: [A", 2, "expected ',' or ']'"),
        ("expected: 60", "expected: many", 7, "figures.1.expected: Input should be a valid number"),
        ("tolerance: 0\n", "tolerance: -1\n", 8, "figures.1.tolerance: Input should be greater than or equal to 0"),
        ("tolerance: 0\n", "tolerance: .inf\n", 8, "finite"),
        ("measure: f1", "measure: f2", 4, "there is no measure 'f2'"),
        ("    at: questions\n", "", 5, SOURCES),
        ("at: questions", "run: keqa", 5, SOURCES),
        ("at: questions", "table: table1\n    row: KEQA", 5, SOURCES),
        ("at: questions", "at: x\n    column: y", 5, SOURCES),
        ("figures:", "first: [keqa demo, rm -r]\nfigures:", 3, "a command is 'keqa"),
        ("at: questions", "at: x\n    kind: bridge", 5, "'kind' goes with 'run'"),
        ("keqa evaluate", "rm -r", 2, "a command is 'keqa"),
        ("keqa evaluate keqa", "keqa reproduce", 2, "a command is 'keqa"),
        ("keqa evaluate", "keqa 'evaluate", 2, "No closing quotation"),
        (" --out {folder}", "", 2, "keqa evaluate needs --out {folder}"),
        ("--out {folder}", "--out runs", 2, "--out runs is elsewhere; a case writes into {folder}"),
        ("--out {folder}", "--out={folder}/../x", 2, "is elsewhere"),
        ("--out {folder}", "-ohere", 2, "--out here is elsewhere"),
        ("--out {folder}", "-o {folder} --work work", 2, "--work work is elsewhere"),
        ("expected: 60", "expected: .nan", 7, "finite"),
        ("run: keqa", "run: ../../secret", 4, "figures.0.run"),
        ("what: A", "what: !!python/object/apply:os.system [ls] #", 1, "could not determine a constructor"),
        ("what: A", "what: 2020-13-45 #", None, "month must be in 1..12"),
        ("figures:", "colour: blue\nfigures:", 3, "colour: Extra inputs are not permitted"),
        ("what: A method is measured\n", "", 1, "what: Field required"),
        (GOOD, "- a list\n", 1, "what, command and figures are expected"),
    ],
)
def test_what_is_malformed_is_refused_with_file_and_line(file, old, new, line, message):
    assert old in GOOD
    path = file(GOOD.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        read_case(path)
    assert str(refused.value).startswith(f"{path}, line {line}: " if line else f"{path}: ")
    assert message in str(refused.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name, why in (("absent", "cannot be read"), ("binary", ".*codec")):
        with pytest.raises(InputError, match=rf"{name}\.yaml:? {why}"):
            load_case(str(tmp_path / f"{name}.yaml"))


PRINTED = {
    "rows": [{"method": "rag", "f1": 0.25}, {"method": "a, b", "n": 0, "f1": 1}, {"method": "a, b", "n": 8, "f1": 2}],
    **{"count": 3, "ok": True},
}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        *(("rows/method=rag/f1", 0.25), ("rows/1/f1", 1), ("count", 3), ("rows/method=a, b&n=8/f1", 2)),
        *((place, None) for place in ("rows/method=react/f1", "rows/7/f1", "rows/f1", "counts", "count/x")),
        *((place, None) for place in ("ok", "rows", "rows/n=9/f1")),
    ],
)
def test_a_number_is_found_at_its_place_or_its_absence_reported(place, found):
    with nullcontext() if found is not None else pytest.raises(InputError, match="what the command printed"):
        assert find(PRINTED, place) == found


@given(st.text(max_size=20))
def test_no_place_breaks_the_search(place):
    with suppress(InputError):
        find(PRINTED, place)


def test_a_figure_is_reproduced_within_its_tolerance_ends_included():
    figure = Expected(name="F1", at="x", expected=0.3, tolerance=0.1)
    verdicts = {value: Checked("c", figure, value).reproduced for value in (0.19, 0.2, 0.4, 0.41, None)}
    assert verdicts == {0.19: False, 0.2: True, 0.4: True, 0.41: False, None: False}


TABLES = {
    "table1.csv": "method,all F1,KEQA's lead in F1 mean,remarks\nKEQA,0.5,,x\nRAG,0.25,0.25,\nRAG,0.1,0.2,\n",
    "figure4-points.csv": "panel,series,threshold α,value,of\none hop,KEQA,0.4,0.5,F1\none hop,KEQA,1.0,0.75,F1\n",
}


@pytest.fixture
def cell(tmp_path, monkeypatch):
    """Checks a figure, by default of a table, without running the command."""
    ran = []
    lines = [make_line(n, float(n < 3), kind=("", "bridge", "fast; bridge")[min(n, 2)]) for n in range(5)]
    write_run(tmp_path / "keqa.jsonl", make_run("keqa", lines))
    (tmp_path / "report").mkdir()
    for name, content in TABLES.items():
        (tmp_path / "report" / name).write_text(content)

    def run(command, **kwargs):
        ran.append(command[3:])
        return subprocess.CompletedProcess(command, 3 if "ask" in command else 0, b'{"count": 60}')

    monkeypatch.setattr(subprocess, "run", run)

    def found(first=(), **of):
        figure = Expected(name="f", expected=0.5, tolerance=0, **of)
        case = Case(name="c", what="w", command="keqa compare keqa -o {folder}", first=list(first), figures=[figure])
        return check(case, tmp_path)[0], ran

    return found


@pytest.mark.parametrize(
    ("of", "value", "problem"),
    [
        ({"row": "KEQA"}, 0.5, ""),
        ({"row": ["KEQA"]}, 0.5, ""),
        ({"table": "figure4-points", "row": ["one hop", "KEQA", 1], "column": "value"}, 0.75, ""),
        ({"table": "figure4-points", "row": ["one hop", "KEQA", "0.40"], "column": "value"}, 0.5, ""),
        ({"table": "table9", "row": "KEQA"}, None, r"table9\.csv cannot be read"),
        ({"row": "ReAct"}, None, "has 0 rows 'ReAct', not one"),
        ({"row": "RAG"}, None, "has 2 rows 'RAG', not one"),
        ({"row": "KEQA", "column": "all EM"}, None, "no column 'all EM'; it has method, all F1"),
        ({"row": "KEQA", "column": "KEQA's lead in F1 mean"}, None, "no number in the column"),
        ({"run": "keqa", "measure": "f1"}, 0.6, ""),
        ({"run": "keqa", "measure": "f1", "kind": "bridge"}, 0.5, ""),
        ({"run": "keqa", "measure": "accuracy"}, None, "keqa has no accuracy"),
        ({"run": "keqa", "measure": "f1", "kind": "x"}, None, "keqa has no f1 of the kind 'x'"),
        ({"at": "count"}, 60, ""),
        ({"at": "x"}, None, "what the command printed has nothing at x: x is not there"),
    ],
)
def test_a_figure_of_a_table_a_run_file_or_what_is_printed(cell, of, value, problem):
    checked = cell(**({"table": "table1", "column": "all F1"} if "row" in of else {}) | of)[0]
    assert (checked.case, checked.measured) == ("c", value)
    assert re.search(problem, checked.problem) if problem else not checked.problem


def test_what_has_to_run_first_does_and_nothing_is_measured_where_it_fails(cell, tmp_path):
    _, ran = cell(at="count", first=["keqa compile --testbed -o {folder}/program"])
    assert ran == [["compile", "--testbed", "-o", f"{tmp_path}/program"], ["compare", "keqa", "-o", str(tmp_path)]]
    checked, ran = cell(at="count", first=["keqa ask why"])
    assert (checked.measured, checked.problem) == (None, "keqa ask ended with exit code 3, not 0")
    assert ran[2:] == [["ask", "why"]]
