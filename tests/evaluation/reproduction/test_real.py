"""Real language models on real questions: which questions are asked, what ships of the replies, and the tables."""

import zipfile

import pytest
from fixtures.run_files import make_line, make_passage, make_quiz, make_run, shown, write_run

from keqa.errors import InputError
from keqa.evaluation.reproduction import real
from keqa.programs.records import Degradation

PASSAGE = make_passage("p", "read text")
LM = "transformers/small@0123"


def write(folder, label, lines, dataset="nq", model=LM):
    run = make_run(label.removesuffix("-compiled"), lines, label=label, dataset=dataset, model=model, command="secret")
    write_run(folder / dataset / f"{label}.jsonl", run)


def tables(folder):
    scores, failures = real.real_tables(real.collected_runs(folder))
    return scores, failures


@pytest.fixture
def data(write_json, tmp_path):
    """Files of two sets: a file for each part, and one file for both."""
    musique = ("musique_ans_v1.0_dev.jsonl", "musique_ans_v1.0_train.jsonl")
    for name, files in (("musique", musique), ("nq", ("NQ-open.dev.jsonl",))):
        for file in files:
            rows = [{"id": f"{file}-{n}", "question": f"{file} {n}?", "answer": f"a{n}"} for n in range(250)]
            more = {"answer_aliases": [], "question_decomposition": [], "paragraphs": [], "answerable": True}
            given = [row | more if name == "musique" else row | {"answer": [row["answer"]]} for row in rows]
            write_json(f"{name}/{file}", given)
    return tmp_path


@pytest.mark.parametrize("name", ["musique", "nq"])
def test_a_larger_sample_begins_with_the_smaller_and_none_is_learned_from(data, name):
    few, all_ = (real.SETS[name].questions(data, most).examples for most in (10, 1_000))
    assert [len(few), len(all_)] == [10, 100]
    assert [one.question for one in all_[:10]] == [one.question for one in few]
    learned = {one.question for one in real.SETS[name].training(data)}
    assert len(learned) == 100
    assert learned.isdisjoint(one.question for one in all_)


def test_of_strategyqa_the_authors_dev_questions_are_asked_and_the_others_are_learned_from(write_json, tmp_path):
    rows = [{"qid": f"q{n}", "question": f"Is it {n}?", "answer": True} for n in range(500)]
    write_json("strategyqa/strategyqa_train.json", rows)
    of = real.SETS["strategyqa"]
    assert min(int(one.id[1:]) for one in of.questions(tmp_path, 100).examples) >= 371
    assert max(int(one.id[1:]) for one in of.training(tmp_path)) < 371


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match=r"musique_ans_v1.0_dev.jsonl is not there: --data is a folder"):
        real.SETS["musique"].questions(tmp_path, 10)


def test_neither_questions_nor_gold_answers_nor_what_was_read_ships(tmp_path):
    quiz = make_quiz("Question 1?", ["own reply"] * 5, [[0, 1, 2, 3, 4]], passages=[PASSAGE])
    note = Degradation(stage="answer", cause="AdapterParseError", message="of the prompt", action="retried")
    write(tmp_path / "lm", "keqa", [make_line(1, 1.0, quizzes=[quiz], passages=[PASSAGE], degradations=[note])])
    real.ship(tmp_path / "lm", tmp_path / "lm.zip")
    with zipfile.ZipFile(tmp_path / "lm.zip") as archive:
        content = archive.read("nq/keqa.jsonl").decode()
    for hidden in ("Question 1?", "gold", "read text", "of the prompt", "secret"):
        assert hidden not in content
    assert "own reply" in content
    first = (tmp_path / "lm.zip").read_bytes()
    real.ship(tmp_path / "lm", tmp_path / "lm.zip")
    assert (tmp_path / "lm.zip").read_bytes() == first


def changes(before, after, at=""):
    """What differs, by the place where it stands."""
    if isinstance(before, dict | list) and before and after:
        places = before if isinstance(before, dict) else range(len(before))
        return {
            key: one for place in places for key, one in changes(before[place], after[place], f"{at}/{place}").items()
        }
    return {} if before == after else {at: after}


def test_what_of_a_line_does_not_ship(tmp_path):
    read = {"passages": [PASSAGE], "evidence": ["a"], "selected": [], "triples": ["b"], "support": "c"}
    asked, other = (make_quiz(text, ["own"], [[0]], **read) for text in ("Question 1?", "Another?"))
    note = Degradation(stage="answer", cause="X", message="of the prompt", action="retried")
    story = {"fallback": asked, "whole": other, "passages": [PASSAGE], "degradations": [note]}
    line = make_line(1, 1.0, quizzes=[asked, other], failed=True, **story)
    line = line.model_copy(update={"choices": ["a", "b"], "golds": {"x": ["y"]}, "quiz_golds": {"x": ["y"]}})
    of = "a9795b6520c219a9ea8a"
    found = changes(line.model_dump(), real.shipped(line).model_dump())
    hidden = {"passages": [], "evidence": [], "triples": [], "support": ""}
    quizzes = ("quizzes/0", "quizzes/1", "fallback", "whole")
    expected = {f"/record/{quiz}/{name}": value for quiz in quizzes for name, value in hidden.items()}
    expected |= {f"/record/{quiz}/{name}": of for quiz in ("quizzes/0", "fallback") for name in ("text", "resolved")}
    expected |= {"/question": of, "/record/question": of, "/record/passages": []}
    expected |= dict.fromkeys(("/error/message", "/record/failure/message", "/record/degradations/0/message"), "")
    expected |= {"/answers": [], "/choices": [], "/golds": None, "/quiz_golds": None}
    assert found == expected
    # What was never answered has no record.
    bare = make_line(1, 0.0).model_copy(update={"record": None})
    assert real.shipped(bare).record is None


def test_the_table_has_scores_costs_and_how_far_keqa_is_ahead(tmp_path):
    write(tmp_path / "lm", "closed-book", [make_line(n, 0.0, 0.25, retrievals=0, calls=1) for n in range(4)])
    write(tmp_path / "lm", "expanding", [make_line(n, float(n > 0), retrievals=2, calls=8) for n in range(4)])
    write(tmp_path / "lm", "expanding", [make_line(n, 1.0, kind="yes/no") for n in range(4)], dataset="strategyqa")
    scores, _ = tables(tmp_path)
    assert scores.title == "Real questions, transformers/small"
    assert shown(scores) == [
        ["NQ-open", "Closed book", "4", ".250", ".250", ".250", ".000", "1.0", "100", ".00", "+.500", "+.000", "+.750"],
        ["NQ-open", "KEQA as it comes", "4", ".750", ".250", "1.000", ".750", "8.0", "100", "2.00", "", "", ""],
        ["StrategyQA", "KEQA as it comes", "4", "1.000", "1.000", "1.000", "1.000", "2.0", "100", "1.00", "", "", ""],
        # Questions of two sets may have the same id.
        ["All sets", "KEQA as it comes", "8", ".875", ".625", "1.000", ".875", "5.0", "100", "1.50", "", "", ""],
    ]
    assert scores.notes[-1] == "KEQA is behind no method on any set."


def test_rows_in_which_keqa_loses_are_named(tmp_path):
    write(tmp_path / "lm", "rag", [make_line(n, 1.0) for n in range(4)])
    write(tmp_path / "lm", "expanding", [make_line(n, 0.0, 0.5) for n in range(4)])
    assert tables(tmp_path)[0].notes[-1] == "KEQA is behind: Always retrieve on NQ-open (-0.500, beyond chance)."
    # One that is served has no revision.
    write(tmp_path / "served", "rag", [make_line(1, 1.0)], model="openai/served")
    assert {real.lm_of(run) for run in real.collected_runs(tmp_path)} == {"transformers/small", "openai/served"}


def test_what_went_wrong_is_counted_by_kind(tmp_path):
    notes = [
        Degradation(stage="answer", cause=cause, message="", action="counted")
        for cause in ("AdapterParseError", "TruncatedReplyError", "EmptyDecomposition")
    ]
    lines = [
        make_line(1, 0.0, degradations=notes),
        make_line(2, 0.0, explanation="It is known that " * 5),
        make_line(3, 0.0).model_copy(update={"answer": "I do not know"}),
        make_line(4, 0.0, failed=True),
    ]
    write(tmp_path / "lm", "keqa", lines)
    assert shown(tables(tmp_path)[1]) == [["KEQA, one search", "4", "2", "1", "1", "1", "1", "EmptyDecomposition 1"]]


@pytest.mark.parametrize(
    ("said", "found"), [("very " * 20, True), ("one two three four five six", False), ("ha ha ha ha ha", False)]
)
def test_a_loop_is_the_same_again_and_again(said, found):
    assert real.loops(said) is found


def test_of_two_runs_of_a_row_the_one_with_more_questions_stands(tmp_path):
    write(tmp_path / "a", "rag", [make_line(n, 0.0) for n in range(3)])
    write(tmp_path / "a", "rag", [make_line(1, 0.0)], dataset="hotpotqa")
    write(tmp_path / "b", "rag", [make_line(n, 1.0) for n in range(2)])
    write(tmp_path / "b", "closed-book", [make_line(1, 1.0)])
    kept = real.with_most(real.collected_runs(tmp_path))
    # What ships and what was collected stand together.
    found = [(one.header.dataset, one.header.label, len(one.lines)) for one in kept]
    assert found == [("nq", "closed-book", 1), ("nq", "rag", 3), ("hotpotqa", "rag", 1)]


def test_only_what_is_finished_ships_or_has_a_row(tmp_path):
    run = make_run("rag", [make_line(1, 1.0)], dataset="nq", ids=["q1", "q2"], model=LM)
    write_run(tmp_path / "lm" / "nq" / "rag.jsonl", run)
    assert real.collected_runs(tmp_path) == []
    real.ship(tmp_path / "lm", tmp_path / "lm.zip")
    with zipfile.ZipFile(tmp_path / "lm.zip") as archive:
        assert archive.namelist() == []


def test_runs_of_a_folder_of_weights_and_of_a_served_model_have_folders_of_their_own(tmp_path):
    names = [real.folder_of(tmp_path, lm).name for lm in ("transformers//models/qwen/", "hosted_vllm/Qwen/Qwen3-8B")]
    assert names == ["transformers-qwen", "hosted_vllm-Qwen3-8B"]


@pytest.mark.slow
def test_what_ships_is_small_and_makes_tables(monkeypatch):
    archives = [one for one in (real._PACKAGE / "real").iterdir() if one.name.endswith(".zip")]
    assert 0 < sum(len(one.read_bytes()) for one in archives) < 25_000_000
    monkeypatch.setattr(real, "SETS", {"nq": real.SETS["nq"]})
    assert all(grid.rows for grid in real.real_tables(real.shipped_runs()))
