"""``keqa reproduce``: figures of cases, and the preset paper."""

import json
from types import SimpleNamespace

import pytest
from servers.openai_server import markers

import keqa
from keqa.cli import running
from keqa.cli.options import LanguageModels
from keqa.errors import ConfigurationError
from keqa.evaluation.reproduction.experiments import DESIGN
from keqa.evaluation.run_file import read_run
from keqa.programs.calls.predictor import NOTHING
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference

pytestmark = pytest.mark.model

QUESTIONS = [
    {"id": "1", "question": "To whom is the mayor of Carmouth married?", "answer": "Flora Isvik"},
    {"id": "2", "question": "Who is the spouse of the mayor of Carmouth?", "answer": "Someone else"},
]


@pytest.fixture
def case(tmp_path, own_index, server, write_json, monkeypatch):
    """Writes a case of two questions to a scripted server, of which one is answered rightly."""
    write_json("two.jsonl", QUESTIONS)
    monkeypatch.chdir(tmp_path)

    def write(expected):
        command = f"keqa evaluate rag -q two.jsonl --index own --lm openai/scripted --api-base {server.api_base}"
        text = f"""\
what: Two questions
command: {command} --out {{folder}} --json
figures:
  - {{name: EM, run: rag, measure: em, expected: {expected}, tolerance: 0.1}}
  - {{name: questions, at: questions, expected: 2, tolerance: 0}}
"""
        (tmp_path / "mine.yaml").write_text(text)
        return "mine.yaml"

    return write


def test_a_figure_is_reproduced_or_shows_the_difference_and_a_stopped_command_resumes(
    keqa_command, case, server, tmp_path
):
    kept = ("--out", tmp_path / "kept")
    ended = keqa_command("reproduce", case(0.5), *kept)
    shown = ["mine: EM, expected 0.5 ± 0.1: 0.5 OK", "mine: questions, expected 2 ± 0: 2 OK"]
    assert ended.fine().splitlines() == shown
    assert "mine: keqa evaluate rag" in ended.err
    assert (tmp_path / "kept" / "mine" / "rag.jsonl").exists()
    calls = server.count
    ended = keqa_command("reproduce", case(0.9), "--json", *kept)
    first, second = json.loads(ended.out)
    assert (ended.code, server.count) == (1, calls)
    assert (first["figure"], first["measured"], first["reproduced"]) == ("EM", 0.5, False)
    assert first["difference"] == pytest.approx(-0.4)
    assert second["reproduced"]


def test_the_list_names_what_can_be_reproduced(keqa_command):
    lines = keqa_command("reproduce", "--list").out.splitlines()
    assert any(line.startswith("demo: ") for line in lines)
    assert [line.split(":")[0] for line in lines[-4:]] == ["paper", "ks-llm", "kbm", "real"]


@pytest.fixture
def papers(own_index, write_json):
    """A tiny NQ and a corpus."""
    lines = [{"question": one["question"], "answer": [one["answer"]]} for one in QUESTIONS]
    return ["--index", own_index, "--data", f"nq:{write_json('NQ-open.dev.jsonl', lines)}", "--no-reference"]


@pytest.fixture
def paper(keqa_command, papers, server, monkeypatch, tmp_path):
    """Runs the preset paper with some methods."""

    def run(methods, *more, lm=("openai/scripted", "--api-base", server.api_base)):
        for name, rows in {"rows": methods, "analysed": [], "more": []}.items():
            monkeypatch.setitem(DESIGN, name, rows)
        given = ("--lm", *lm, *papers, "--out", tmp_path / "runs", "--json", *more)
        return keqa_command("reproduce", "paper", *given)

    return run


def rows_of(ended, table="table1"):
    assert ended.code == 0, ended.err
    return json.loads(ended.out)[table]


def test_a_dry_run_estimates_needs_neither_key_nor_address_and_asks_nothing(paper, server, monkeypatch):
    for name in ("API_BASE", "BASE_URL"):
        monkeypatch.delenv(f"HOSTED_VLLM_{name}", raising=False)
    others = ("--consistency-lm", "hosted_vllm/llama", "--other-lm", "hosted_vllm/mine", "--dry-run")
    ended = paper(("closed-book", "cot-few-shot", "keqa"), *others, lm=("openai/gpt-4o-mini",))
    rows = {row["run"]: row for row in rows_of(ended, "estimate")}
    assert rows["closed-book"]["LM calls least"] == rows["closed-book"]["LM calls most"] == 2
    assert rows["cot-few-shot"]["LM calls least"] == 2
    # One quiz, for a question of NQ is of one hop: four draws that agree; or five that are compared, and the passage
    # that is found for one of the two.
    assert (rows["keqa"]["LM calls least"], rows["keqa"]["LM calls most"]) == (2 * 4, 2 * (5 + 10) + 1)
    assert rows["hosted_vllm/llama"]["LM calls most"] == 2 * 10
    assert rows[""]["US dollars most"] == rows["openai/gpt-4o-mini"]["US dollars most"] > 0
    assert "left out, for there is nothing to make them of: keqa-no-reference, keqa-random-reference" in ended.err
    assert server.count == 0


def test_the_discriminators_are_language_models_of_their_own(paper, server, tmp_path):
    answers, asked = server.reply, {"scripted": [], "llama": []}

    def reply(messages, n, body):
        text = messages[-1]["content"]
        asked[body["model"]].append(text)
        if "[[ ## question ## ]]" in text:
            return [markers(reasoning="She is married to him.", answer="Flora Isvik", known=True)] * n
        return answers(messages, n, body)

    server.reply = reply
    models = []
    for role in ("consistency", "utility"):
        models += [f"--{role}-lm", "hosted_vllm/llama", f"--{role}-api-base", server.api_base]
    ended = paper(("keqa", "slimplm"), *models)
    # Nothing was compiled, so there is no utility reference: the row says so, and stands beside that row of the paper.
    assert [row["method"] for row in rows_of(ended)] == ["SlimPLM", "KEQA w/o R"]
    assert [row["nq F1 paper"] for row in rows_of(ended, "paper-table1")] == [0.442, 0.456]
    reported = {name: read_run(tmp_path / "runs" / "nq" / f"{name}.jsonl").header for name in ("keqa", "slimplm")}
    used = {
        name: {role: lm["model"] for role, lm in one.configuration.models.items()} for name, one in reported.items()
    }
    judges = {"consistency": "hosted_vllm/llama", "utility": "hosted_vllm/llama"}
    assert used["keqa"] == {"task": "openai/scripted", **judges}
    assert used["slimplm"] == {"task": "openai/scripted", "consistency": "hosted_vllm/llama"}
    assert reported["keqa"].configuration.settings["decompose"] is False
    assert "--consistency-lm hosted_vllm/llama --consistency-api-base" in reported["keqa"].command
    # D_s compares, D_u judges passages, and SlimPLM's proxy judges what it has proposed; the task's LM does none of it.
    fields = ("[[ ## first_answer ## ]]", "[[ ## passage ## ]]", "[[ ## heuristic_answer ## ]]")
    assert [any(field in text for text in asked["llama"]) for field in fields] == [True, True, True]
    assert not any(field in text for text in asked["scripted"] for field in fields)
    models[1] = "hosted_vllm/mistral"
    paper(("keqa", "slimplm"), *models).refused("models.consistency.model was")


def test_what_a_program_learned_from_is_not_in_the_sample(paper, papers, tmp_path):
    program = keqa.KEQA(None, reference=UtilityReference().fit([UtilityEntry("1", "Who?", "Ann.", True)]))
    program.learned = NOTHING.and_from([SimpleNamespace(id="q", question=QUESTIONS[0]["question"], choices=())], [])
    keqa.save(program, tmp_path / "program")
    papers.remove("--no-reference")
    asked = ("--program", tmp_path / "program")
    assert [row["method"] for row in rows_of(paper(("keqa",), *asked))] == ["KEQA"]
    header = read_run(tmp_path / "runs" / "nq" / "keqa.jsonl").header
    assert (len(header.ids), header.learned_from, header.left_out) == (1, [], {"learned from": 1})
    ended = paper(("keqa",), *asked, "--out", tmp_path / "all", "--allow-overlap")
    assert [row["method"] for row in rows_of(ended)] == ["KEQA*"]


def test_the_direct_prompts_are_zero_shot_and_all_rows_where_that_is_wanted(paper, tmp_path):
    def shown(*more):
        assert paper(("closed-book", "cot-few-shot", "rag", "ircot", "keqa"), *more).code == 0
        runs = map(read_run, sorted((tmp_path / "runs" / "nq").glob("*.jsonl")))
        return {run.header.method: set(run.header.demonstrations.values()) for run in runs}

    assert shown() == {"closed-book": {0}, "cot-few-shot": {4}, "ircot": {4}, "keqa": {4}, "rag": {0}}
    for path in (tmp_path / "runs" / "nq").glob("*.jsonl"):
        path.unlink()
    # Without demonstrations there is no few-shot row.
    assert shown("--no-demonstrations") == {"closed-book": {0}, "ircot": {0}, "keqa": {0}, "rag": {0}}


def test_another_language_model_takes_the_place_of_the_tasks_alone():
    judges = {"consistency_lm": "hosted_vllm/llama", "utility_lm": "openai/judge"}
    models = LanguageModels("openai/gpt", "http://a/v1", **judges, consistency_api_base="http://b/v1")
    # The utility LM stays on the server of --lm, whose provider is its own.
    addresses = {"consistency_api_base": "http://b/v1", "utility_api_base": "http://a/v1"}
    assert models.with_another("openai/larger") == LanguageModels("openai/larger", None, **judges, **addresses)
    other = LanguageModels("hosted_vllm/llama", "http://b/v1", **judges, **addresses)
    assert models.with_another("hosted_vllm/llama") == other
    alone = LanguageModels("openai/gpt", api_base="http://a/v1").with_another("hosted_vllm/llama")
    assert alone == LanguageModels("hosted_vllm/llama")


def test_no_other_method_is_left_out_than_one_without_token_probabilities(paper, monkeypatch):
    def refused(specs, *asking, **others):
        assert others["leave_out"]
        if specs[0].label == "flare":
            raise ConfigurationError("LMAuthError: the key is wrong")
        return rows(specs, *asking, **others)

    rows = running.rows_of
    monkeypatch.setattr(running, "rows_of", refused)
    ended = paper(("rag", "flare"))
    assert (ended.code, "the key is wrong" in ended.err) == (2, True)
    assert "left out: " not in ended.err.replace("left out, for", "")
