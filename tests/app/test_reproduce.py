import json
from types import SimpleNamespace

import pytest
from servers.openai_server import markers

from keqa.errors import ConfigurationError
from keqa.evaluation.run_file import read_run

pytestmark = pytest.mark.model

QUESTIONS = [
    {"id": "1", "question": "To whom is the mayor of Carmouth married?", "answer": "Flora Isvik"},
    {"id": "2", "question": "Who is the spouse of the mayor of Carmouth?", "answer": "Someone else"},
]


@pytest.fixture
def case(tmp_path, server, monkeypatch):
    """Writes a case of two questions to a scripted server, of which one is answered rightly."""
    from keqa.retrievers import Passage, build_index

    build_index([Passage("1", "Heidi Fenman", "She married Flora Isvik.")], tmp_path / "own")
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    monkeypatch.chdir(tmp_path)

    def write(expected, *more, exit_code=0):
        command = f"keqa evaluate rag -q two.jsonl --index own --lm openai/scripted --api-base {server.api_base}"
        text = f"""\
what: Two questions
command: {command} --out {{folder}} --json
exit_code: {exit_code}
figures:
  - {{name: EM, run: rag, measure: em, expected: {expected}, tolerance: 0.1}}
  - {{name: questions, at: questions, expected: 2, tolerance: 0}}
"""
        (tmp_path / "mine.yaml").write_text(text + "".join(more))
        return "mine.yaml"

    return write


def test_a_figure_that_is_reproduced_is_ok(keqa_command, case):
    ended = keqa_command("reproduce", case(0.5))
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "mine: EM, expected 0.5 ± 0.1: 0.5 OK",
        "mine: questions, expected 2 ± 0: 2 OK",
    ]
    assert "mine: keqa evaluate rag" in ended.err


def test_a_figure_that_is_not_shows_the_difference_and_a_stopped_command_resumes(keqa_command, case, server, tmp_path):
    ended = keqa_command("reproduce", case(0.9), "--json", "--out", tmp_path / "kept")
    assert ended.code == 1
    first, second = json.loads(ended.out)
    assert (first["figure"], first["measured"], first["reproduced"]) == ("EM", 0.5, False)
    assert first["difference"] == pytest.approx(-0.4)
    assert second["reproduced"]
    assert (tmp_path / "kept" / "mine" / "rag.jsonl").exists()
    calls = server.count
    again = keqa_command("reproduce", case(0.9), "--out", tmp_path / "kept")
    assert "mine: EM, expected 0.9 ± 0.1: 0.5 differs by -0.4" in again.out
    assert server.count == calls


def test_a_command_that_ends_badly_has_no_figures(keqa_command, case):
    ended = keqa_command("reproduce", case(0.5, exit_code=3))
    assert ended.code == 1
    assert "keqa evaluate ended with exit code 0, not 3" in ended.out


def test_the_list_names_what_can_be_reproduced(keqa_command):
    lines = keqa_command("reproduce", "--list").out.splitlines()
    assert any(line.startswith("demo: ") for line in lines)
    assert [line.split(":")[0] for line in lines[-2:]] == ["paper", "ks-llm"]


def test_what_no_case_uses_is_not_given_for_nothing(keqa_command, case, server):
    ended = keqa_command("reproduce", case(0.5), "--utility-lm", "openai/other")
    assert ended.code == 2
    assert "--utility-lm is for the preset paper" in " ".join(ended.err.split())
    assert server.count == 0


@pytest.fixture
def papers(tmp_path):
    """A tiny NQ and a corpus."""
    from keqa.retrievers import Passage, build_index

    build_index([Passage("1", "Heidi Fenman", "She married Flora Isvik.")], tmp_path / "own")
    lines = [json.dumps({"question": one["question"], "answer": [one["answer"]]}) for one in QUESTIONS]
    (tmp_path / "NQ-open.dev.jsonl").write_text("\n".join(lines) + "\n")
    return ["--index", tmp_path / "own", "--data", f"nq:{tmp_path / 'NQ-open.dev.jsonl'}", "--no-reference"]


def test_a_dry_run_estimates_and_asks_nothing(keqa_command, papers, server, monkeypatch):
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("closed-book", "cot-few-shot", "keqa"))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    lm = ["--lm", "openai/gpt-4o-mini", "--api-base", server.api_base]
    ended = keqa_command("reproduce", "paper", *lm, *papers, "--dry-run", "--json")
    assert ended.code == 0, ended.err
    rows = {row["run"]: row for row in json.loads(ended.out)["estimate"]}
    assert rows["closed-book"]["LM calls least"] == rows["closed-book"]["LM calls most"] == 2
    assert rows["keqa"]["LM calls most"] > rows["keqa"]["LM calls least"] > 2
    assert 0 < rows[""]["US dollars least"] < rows[""]["US dollars most"]
    assert rows["cot-few-shot"]["LM calls least"] == 2
    assert "left out, for there is nothing to make them of: keqa-no-reference, keqa-random-reference" in ended.err
    assert server.count == 0


def test_a_dry_run_needs_no_key_and_no_address(keqa_command, papers, monkeypatch):
    for name in ("API_BASE", "BASE_URL"):
        monkeypatch.delenv(f"HOSTED_VLLM_{name}", raising=False)
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("closed-book", "keqa"))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    models = ["--lm", "openai/gpt-4o-mini", "--consistency-lm", "hosted_vllm/llama", "--other-lm", "hosted_vllm/mine"]
    ended = keqa_command("reproduce", "paper", *models, *papers, "--dry-run", "--json")
    assert ended.code == 0, ended.err
    rows = {row["run"]: row for row in json.loads(ended.out)["estimate"]}
    # One quiz, for a question of NQ is of one hop: four draws that agree; or five that are compared, and the passage
    # that is found for one of the two.
    assert (rows["keqa"]["LM calls least"], rows["keqa"]["LM calls most"]) == (2 * 4, 2 * (5 + 10) + 1)
    assert rows["hosted_vllm/llama"]["LM calls most"] == 2 * 10
    assert rows[""]["US dollars most"] == rows["openai/gpt-4o-mini"]["US dollars most"] > 0


def test_the_discriminators_are_language_models_of_their_own(keqa_command, papers, server, monkeypatch, tmp_path):
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("keqa", "slimplm"))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    answers, asked = server.reply, {"scripted": [], "llama": []}

    def reply(messages, n, body):
        text = messages[-1]["content"]
        asked[body["model"]].append(text)
        if "[[ ## question ## ]]" in text:
            return [markers(reasoning="She is married to him.", answer="Flora Isvik", known=True)] * n
        return answers(messages, n, body)

    server.reply = reply
    models = ["--lm", "openai/scripted", "--api-base", server.api_base]
    for role in ("consistency", "utility"):
        models += [f"--{role}-lm", "hosted_vllm/llama", f"--{role}-api-base", server.api_base]
    ended = keqa_command("reproduce", "paper", *models, *papers, "--out", tmp_path / "runs", "--json")
    assert ended.code == 0, ended.err
    # Nothing was compiled, so there is no utility reference: the row says so, and stands beside that row of the paper.
    printed = json.loads(ended.out)
    assert [row["method"] for row in printed["table1"]] == ["SlimPLM", "KEQA w/o R"]
    assert [row["nq F1 paper"] for row in printed["paper-table1"]] == [0.442, 0.456]
    reported = {name: read_run(tmp_path / "runs" / "nq" / f"{name}.jsonl").header for name in ("keqa", "slimplm")}
    judges = {"consistency": "hosted_vllm/llama", "utility": "hosted_vllm/llama"}
    used = {name: one.configuration.models for name, one in reported.items()}
    assert {role: one.model for role, one in used["keqa"].items()} == {"task": "openai/scripted", **judges}
    assert {role: one.model for role, one in used["slimplm"].items()} == {
        "task": "openai/scripted",
        "consistency": "hosted_vllm/llama",
    }
    assert reported["keqa"].configuration.settings["decompose"] is False
    assert "--consistency-lm hosted_vllm/llama --consistency-api-base" in reported["keqa"].command
    # D_s compares, D_u judges passages, and SlimPLM's proxy judges what it has proposed; the task's LM does none of it.
    fields = ("[[ ## first_answer ## ]]", "[[ ## passage ## ]]", "[[ ## heuristic_answer ## ]]")
    assert [any(field in text for text in asked["llama"]) for field in fields] == [True, True, True]
    assert not any(field in text for text in asked["scripted"] for field in fields)
    # Another judge is another run.
    models[models.index("hosted_vllm/llama")] = "hosted_vllm/mistral"
    ended = keqa_command("reproduce", "paper", *models, *papers, "--out", tmp_path / "runs")
    assert ended.code == 2
    assert "models.consistency.model was" in ended.err


def test_a_method_without_token_probabilities_is_left_out(keqa_command, papers, server, monkeypatch, tmp_path):
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("rag", "flare"))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    answers = server.reply

    def reply(messages, n, body):
        return (
            [markers(thought="So the answer is Oslo.")] * n
            if "thoughts" in str(messages)
            else answers(messages, n, body)
        )

    server.reply = reply
    lm = ["--lm", "openai/scripted", "--api-base", server.api_base, "--out", tmp_path / "runs"]
    ended = keqa_command("reproduce", "paper", *lm, *papers, "--json")
    assert ended.code == 0, ended.err
    assert "flare is left out: openai/scripted gives no token probabilities" in ended.err
    assert [row["method"] for row in json.loads(ended.out)["table1"]] == ["Always retrieve"]


def test_any_other_error_of_such_a_method_is_no_reason_to_leave_it_out(
    keqa_command, papers, server, monkeypatch, tmp_path
):
    from keqa.cli import running

    rows_of = running.rows_of

    def refused(specs, *asking, **others):
        if specs[0].label == "flare":
            raise ConfigurationError("LMAuthError: the key is wrong")
        return rows_of(specs, *asking, **others)

    monkeypatch.setattr(running, "rows_of", refused)
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("rag", "flare"))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    lm = ["--lm", "openai/scripted", "--api-base", server.api_base, "--out", tmp_path / "runs"]
    ended = keqa_command("reproduce", "paper", *lm, *papers)
    assert ended.code == 2
    assert "the key is wrong" in ended.err
    assert "left out: " not in ended.err.replace("left out, for", "")
    assert (tmp_path / "runs" / "nq" / "rag.jsonl").exists()


def test_failed_questions_of_the_paper_are_counted_and_asked_again(keqa_command, papers, server, monkeypatch, tmp_path):
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("rag",))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    answers, server.reply = server.reply, lambda messages, n, body: ["no format"] * n
    given = ["--lm", "openai/scripted", "--api-base", server.api_base, "--out", tmp_path / "runs", "--json"]
    ended = keqa_command("reproduce", "paper", *given, *papers)
    assert ended.code == 0, ended.err
    reported = "nq, rag: 2 failed (AdapterParseError 2); --retry-failed asks them again"
    assert reported in ended.err
    server.reply = answers
    assert reported in keqa_command("reproduce", "paper", *given, *papers).err
    before = server.count
    ended = keqa_command("reproduce", "paper", *given, *papers, "--retry-failed")
    assert "--retry-failed asks" not in ended.err
    assert [row["failed"] for row in json.loads(ended.out)["table1"]] == [0]
    assert server.count == before + 2
    assert "--retry-failed is for the preset paper" in keqa_command("reproduce", "--retry-failed").err


def test_what_a_program_learned_from_is_not_in_the_sample(keqa_command, papers, server, monkeypatch, tmp_path):
    from keqa.programs import KEQA
    from keqa.programs.learned import NOTHING
    from keqa.programs.reference.utility_reference import Entry, UtilityReference
    from keqa.programs.saving.folder import save

    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._OVERALL", ("keqa",))
    monkeypatch.setattr("keqa.evaluation.reproduction.experiments._ANALYSED", ())
    program = KEQA(None, reference=UtilityReference().fit([Entry("1", "Who?", "Ann.", True)]))
    program.learned = NOTHING.and_from([SimpleNamespace(id="q", question=QUESTIONS[0]["question"], choices=())], [])
    save(program, tmp_path / "program")
    lm = ["--lm", "openai/scripted", "--api-base", server.api_base, "--program", tmp_path / "program"]
    papers.remove("--no-reference")
    ended = keqa_command("reproduce", "paper", *lm, *papers, "--out", tmp_path / "runs", "--json")
    assert ended.code == 0, ended.err
    header = read_run(tmp_path / "runs" / "nq" / "keqa.jsonl").header
    assert (len(header.ids), header.learned_from, header.left_out) == (1, [], {"learned from": 1})
    assert [row["method"] for row in json.loads(ended.out)["table1"]] == ["KEQA"]
    ended = keqa_command("reproduce", "paper", *lm, *papers, "--out", tmp_path / "all", "--allow-overlap", "--json")
    assert [row["method"] for row in json.loads(ended.out)["table1"]] == ["KEQA*"]
