"""``keqa reproduce real``: collecting from a served model, resuming, and printing without it."""

import pytest

from keqa.evaluation.reproduction import real
from keqa.programs.saving import learned_of

pytestmark = pytest.mark.server
QUESTIONS = [
    {"question": f"To whom is the mayor of Carmouth married{'?' * n}", "answer": ["Flora Isvik"]} for n in (1, 2)
]


@pytest.fixture
def data(write_json):
    """A folder of data sets with one of them."""
    write_json("data/nq/NQ-open.dev.jsonl", QUESTIONS)
    text = "id\ttext\ttitle\n1\tShe married Flora Isvik.\tHeidi Fenman\n"
    return write_json("data/nq/psgs_w100.tsv", text).parents[1]


@pytest.fixture
def run(keqa_command, tmp_path, monkeypatch):
    monkeypatch.setattr(real, "shipped_runs", list)

    def run(*given):
        return keqa_command("reproduce", "real", "--out", tmp_path / "out", *given)

    return run


def test_what_was_collected_is_printed_without_the_model_and_nothing_is_asked_twice(
    run, data, server, served, tmp_path
):
    asked = (*served, "--data", data, "--only", "nq")
    rows = ("--only", "closed-book", "--only", "rag", "--only", "keqa")
    found = run(*asked, *rows, "--json").json()
    assert [(row["method"], row["questions"]) for row in found["real-1"]] == [
        *(("Closed book", 2), ("Always retrieve", 2), ("KEQA, one search", 2))
    ]
    assert [row["F1 mean"] for row in found["real-1"]][1:] == [1, 1]
    calls = server.count
    assert run(*asked, *rows, "--json").json() == found
    assert run("--json").json() == found
    assert server.count == calls
    assert "Real questions, openai/scripted" in run().fine()
    real.ship(tmp_path / "out" / "openai-scripted", tmp_path / "shipped.zip")
    assert b"Carmouth married" not in (tmp_path / "shipped.zip").read_bytes()


def test_what_learns_is_compiled_first_on_other_questions(run, data, served, write_json, tmp_path, monkeypatch):
    monkeypatch.setitem(real.DESIGN, "sample", 6)
    question = "Who is the spouse of the mayor of Carmouth, number"
    rows = [{"question": f"{question} {n}?", "answer": ["Flora Isvik"]} for n in range(12)]
    write_json("data/nq/NQ-open.dev.jsonl", rows)
    found = run(*served, "--data", data, "--only", "nq", "--only", "keqa-compiled", "--json").json()
    assert [(row["method"], row["questions"]) for row in found["real-1"]] == [("KEQA, compiled", 6)]
    known = learned_of(tmp_path / "out" / "openai-scripted" / "nq" / "programs" / "keqa-compiled")
    assert len({*known.train, *known.validation}) == 6


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((), "nothing ships with this version, and nothing was collected in"),
        (("--lm", "openai/scripted"), "to collect further give --lm and --data, one folder"),
        (("--data", "nowhere"), "to collect further give --lm and --data, one folder"),
        (("--only", "nothing"), "--only nothing: there are nq, triviaqa"),
        (("--lm", "openai/scripted", "--data", "nowhere"), "is not there: --data is a folder"),
        (("--documents", "x"), "--documents is for keqa reproduce ks-llm, not for real"),
        (("--dry-run",), "--dry-run is for keqa reproduce paper, not for real"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(run, given, why):
    run(*given).refused(why)
