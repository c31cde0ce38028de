import json
from pathlib import Path

import pytest
from servers.openai_server import markers

import keqa
from keqa.evaluation.run_file import read_run
from keqa.programs.baselines import AlwaysRetrieve
from keqa.programs.keqa import KEQA

pytestmark = pytest.mark.model


@pytest.fixture
def evaluate(keqa_command, served, write_json, tmp_path):
    """Runs `keqa evaluate` on questions about Carmouth, asked of the server."""
    rows = [
        {"id": "mayor", "question": "Who governs Carmouth?", "answer": "Heidi Fenman"},
        {"id": "spouse", "question": "To whom is the mayor of Carmouth married?", "answer": "Flora Isvik"},
    ]
    with write_json("towns.jsonl", rows).open("a") as file:
        file.write("not JSON\n")
    passage = {"id": "p", "title": "Heidi Fenman", "text": "Heidi Fenman is married to Flora Isvik."}
    keqa_command("index", write_json("corpus.jsonl", [passage]), "--out", tmp_path / "index").fine()

    def run(method, *arguments, command="evaluate"):
        given = ["--questions", tmp_path / "towns.jsonl", "--index", tmp_path / "index", "--out", tmp_path / "runs"]
        return keqa_command(command, *([method] if isinstance(method, str) else method), *given, *served, *arguments)

    return run


def test_a_run_is_kept_and_shown(evaluate, server, tmp_path):
    ended = evaluate("keqa", "--no-look-first", "--label", "mine")
    assert ended.code == 0
    row = next(line for line in ended.out.splitlines() if line.strip().startswith("mine"))
    assert row.split()[1:4] == [".500", ".500", "1.00"]
    assert "towns.jsonl, line 3: malformed JSON" in ended.err
    run = read_run(tmp_path / "runs" / "mine.jsonl")
    assert [line.id for line in run.lines] == ["mayor", "spouse"]
    assert (run.header.dataset, run.header.method) == ("towns.jsonl", "keqa")
    # It holds no address and no folder.
    text = (tmp_path / "runs" / "mine.jsonl").read_text()
    assert f":{server.port}" not in text
    assert str(tmp_path) not in text
    assert run.header.command == (
        "keqa evaluate keqa --label mine --questions towns.jsonl --out runs --no-look-first --index index "
        "--lm openai/scripted --api-base '<address>'"
    )


def test_rowen_checks_across_languages_with_any_language_model_but_the_one_that_ships(evaluate, keqa_command, tmp_path):
    evaluate("rowen")
    assert read_run(tmp_path / "runs" / "rowen.jsonl").header.configuration.settings["language"] == "Chinese"
    keqa_command("evaluate", "rowen", "--testbed", "--limit", 1, "--out", tmp_path / "tiny")
    reported = read_run(tmp_path / "tiny" / "rowen.jsonl").header.configuration
    assert (reported.settings["language"], reported.arguments) == (None, {"language": "None"})


def test_questions_that_are_left_out_are_reported_and_kept_in_the_header(
    keqa_command, served, unanswerable_squad, tmp_path
):
    given = ["--questions", f"squad:{unanswerable_squad}", "--out", tmp_path / "runs"]
    ended = keqa_command("evaluate", "closed-book", *given, *served)
    assert ended.code == 1, ended.err
    assert "left out: 2 unanswerable" in ended.err
    assert read_run(tmp_path / "runs" / "closed-book.jsonl").header.left_out == {"unanswerable": 2}


def test_figures_as_json(evaluate, server):
    ended = evaluate("rag", "--json")
    found = json.loads(ended.out)
    assert (found["method"], found["questions"], found["asked"], found["failed"]) == ("rag", 2, 2, 0)
    assert found["lm_calls"] == found["lm_requests"] == 2
    again = evaluate("rag", "--json").json()
    assert (again["asked"], again["scores"]) == (0, found["scores"])
    cached = evaluate("rag", "--json", "--label", "again").json()
    assert (cached["asked"], cached["lm_requests"], cached["lm_calls"]) == (2, 2, 0)
    uncached = evaluate("rag", "--json", "--label", "anew", "--no-cache").json()
    assert (uncached["asked"], uncached["lm_calls"]) == (2, 2)
    assert server.count == 4


def test_questions_whose_search_failed_are_reported_and_asked_again(evaluate, monkeypatch):
    from keqa.errors import RetrievalError
    from keqa.retrievers import CachingRetriever

    search = CachingRetriever.search

    def away(self, query, k=10):
        if "married" in query:
            raise RetrievalError("the server is away")
        return search(self, query, k)

    with monkeypatch.context() as patched:
        patched.setattr(CachingRetriever, "search", away)
        ended = evaluate("rag")
    assert ended.code == 0
    assert "rag: 1 failed (RetrievalError 1); --retry-failed asks them again" in ended.err
    reported = [line for line in ended.out.splitlines() if line.strip().startswith("Always retrieve")]
    # F1 and EM over both, one of two untouched.
    assert " 1/2 " in " ".join(reported)
    found = evaluate("rag", "--retry-failed", "--json").json()
    assert (found["asked"], found["failed"], found["untouched"]) == (1, 0, 2)


def test_each_method_of_a_comparison_takes_its_own_program(evaluate, tmp_path):
    shown = AlwaysRetrieve(None, top_k=3)
    shown.answer.demos = [{"question": "Who?", "passages": ["Ann."], "answer": "Ann"}]
    keqa.save(shown, tmp_path / "rag")
    keqa.save(KEQA(None, tries=3), tmp_path / "keqa")
    programs = ["--program", tmp_path / "rag", "--program", tmp_path / "keqa"]
    assert evaluate(["rag", "keqa"], *programs, command="compare").code == 0
    settings = {name: read_run(tmp_path / "runs" / f"{name}.jsonl").header for name in ("rag", "keqa")}
    assert settings["rag"].configuration.settings["top_k"] == 3
    assert settings["keqa"].configuration.settings["tries"] == 3
    assert (settings["rag"].compiled, settings["rag"].demonstrations) == ("rag", {"answer": 1})
    # What has learned none shows the fixed ones.
    assert (settings["keqa"].compiled, set(settings["keqa"].demonstrations.values())) == ("keqa", {4})
    assert "There are none in those of" not in (tmp_path / "runs" / "report" / "table1.md").read_text()
    evaluate("rag", *programs, "--label", "alone").refused("holds a compiled keqa, which means nothing to rag")


def test_methods_are_compared_and_the_report_is_drawn_again_without_asking(evaluate, keqa_command, server, tmp_path):
    ended = evaluate(["closed-book", "keqa"], command="compare")
    # The server has no reply that closed book could read.
    assert ended.code == 1
    assert "Closed book" in ended.out
    assert {file.name for file in (tmp_path / "runs").glob("*.jsonl")} == {"closed-book.jsonl", "keqa.jsonl"}
    report = tmp_path / "runs" / "report"
    written = {file.name: file.read_bytes() for file in report.iterdir() if file.suffix != ".png"}
    assert any(name.endswith(".csv") for name in written)
    before = server.count
    keqa_command("compare", tmp_path / "runs", "--out", tmp_path / "again").fine()
    assert server.count == before
    again = tmp_path / "again" / "report"
    assert {file.name: file.read_bytes() for file in again.iterdir() if file.suffix != ".png"} == written


def test_a_method_that_cannot_be_asked_is_left_out_of_the_report(evaluate, server, tmp_path):
    answers = server.reply

    def reply(messages, n, body):
        return (
            [markers(thought="Ann governs Oslo.")] * n if "thought" in str(messages[0]) else answers(messages, n, body)
        )

    server.reply = reply
    ended = evaluate(["closed-book", "flare", "rag"], command="compare")
    assert ended.code == 1
    assert "flare is left out: openai/scripted gives no token probabilities" in ended.err
    assert {file.name for file in (tmp_path / "runs").glob("*.jsonl")} == {"closed-book.jsonl", "rag.jsonl"}
    rows = (tmp_path / "runs" / "report" / "table1.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["Closed book", "Always retrieve"]
    assert [row["label"] for row in json.loads(evaluate(["flare", "rag"], "--json", command="compare").out)] == ["rag"]
    alone = evaluate(["flare"], command="compare")
    assert (alone.code, "flare is left out" in alone.err) == (1, True)
    # A method asked for by itself is an error as any other.
    assert evaluate("flare").code == 2


def test_the_table_of_gates_stands_below_that_of_the_other_methods(keqa_command, tmp_path):
    runs = Path(__file__).parents[2] / "evaluation" / "reports" / "golden" / "gates"
    out = keqa_command("compare", runs, "--out", tmp_path / "again").fine()
    overall, below = out.partition("\nFurther rows: gates, points of figures")[::2]
    further, gates = below.partition("\nGates")[::2]
    assert ["Certainty" in one for one in (overall, further, gates)] == [False, True, True]
    # Below a later report there are tables that it has not.
    ended = keqa_command("compare", runs / "keqa.jsonl", "--out", tmp_path / "again")
    assert "tables of an earlier comparison, which are not of these runs: gates" in ended.err


def test_the_runs_of_a_folder_stand_in_the_papers_order(tmp_path):
    from keqa.cli.evaluate import run_files_of

    ordered = "closed-book cot rag rag-cot keqa keqa-top_k=5 keqa-no-ukp gate-votes zebra".split()
    for name in sorted(ordered, reverse=True):
        (tmp_path / f"{name}.jsonl").write_text('{"header": {}}')
    (tmp_path / "questions.jsonl").write_text('{"question": "Who?"}')
    assert [file.stem for file in run_files_of([str(tmp_path), str(tmp_path / "keqa.jsonl")])] == ordered
