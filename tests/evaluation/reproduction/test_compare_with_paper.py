"""The KEQA paper's experiments: what is run, with what, and its figures beside those of a run."""

import pytest
from fixtures.run_files import shown as rows

from keqa.errors import InputError, MissingExtraError
from keqa.evaluation.reports.judge import key_of
from keqa.evaluation.reports.published import datasets
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reproduction.compare_with_paper import compare_with_paper
from keqa.evaluation.reproduction.experiments import (
    DESIGN,
    FEW_SHOT,
    OF_REFERENCE,
    experiments,
    in_table_order,
    settings_for,
)
from keqa.evaluation.reproduction.training import embedder_of, label_pairs, pairs_to_label, training_sources
from keqa.programs.build import Parts, make
from keqa.programs.records import CallCost, Cost
from keqa.programs.registry import METHODS, parse_spec


def test_the_papers_figures_stand_beside_those_here(scored, run, line):
    entries = entries_of(
        [
            scored("keqa", (1, 1, 0, 0), dataset="nq"),
            scored("rag", (1, 0, 0, 0), dataset="nq"),
            scored("rag-cot", (1, 0, 0, 0), dataset="nq"),
            run("react", [line(number, 1.0, unreadable=2) for number in range(4)], dataset="nq"),
            scored("keqa", (1, 1, 1, 0), label="keqa-dense", dataset="nq"),
            scored("keqa", (1, 0), "yes/no", dataset="strategyqa"),
        ]
    )
    first, dense, models, costs = compare_with_paper(entries)
    assert [column.full for column in first.columns] == [
        *("method", "nq F1 here", "nq F1 paper", "nq EM here", "nq EM paper"),
        *("strategyqa ACC here", "strategyqa ACC paper"),
    ]
    # A row whose prompts were not understood has no figures of either side.
    assert rows(first) == [
        ["Always retrieve", ".250", ".385", ".250", ".258", "", ".516"],
        ["ReAct", "", "", "", "", "", ""],
        ["KEQA", ".500", ".483", ".500", ".352", ".500", ".680"],
    ]
    assert "without figures of either side: ReAct." in " ".join(first.notes)
    assert rows(dense) == [["KEQA (dense)", ".750", ".491", "", ".690"]]
    assert rows(models)[0] == ["KEQA w GPT-4", ".515", ".760"]
    assert rows(costs)[0][:7] == ["KEQA", "1.000", ".138", "2.000", "5.080", "100.000", "239.000"]


def test_each_row_stands_beside_what_the_paper_calls_what_ran(scored):
    here = {"dataset": "nq", "pick": True, "index": "TantivyRetriever"}
    names = ("keqa", "keqa-no-qke", "rag")
    first, *_ = compare_with_paper(entries_of([scored(name, (1, 0), **here) for name in names]))
    # Without a utility reference "w/o QKE" has no counterpart in the paper, and KEQA is its "w/o R".
    assert [row[::2] for row in rows(first)] == [["Always retrieve", ".385", ".258"], ["KEQA w/o R", ".456", ".316"]]


def test_the_papers_judge_and_steps_stand_beside_those_here(run, line, quiz):
    asked = quiz("Question 0?", ["gold", "lead"], [[0], [1]])
    first = run("keqa", [line(0, 1.0, quizzes=[asked])], dataset="nq")
    cost = Cost(by_step={"examination.quiz": CallCost(samples=5, seconds=1.5)})
    runs = [first, run("keqa", [line(0, 1.0, kind="yes/no", cost=cost)], dataset="strategyqa")]
    grids = {grid.name: grid for grid in compare_with_paper(entries_of(runs))}
    assert rows(grids["paper-table2"]) == [["D_s", "1.000", ".611", "", ".774"], ["BERTScore", "", ".559", "", ".671"]]
    assert "Pairs here: 1 on nq, 0 on strategyqa." in grids["paper-table2"].notes[0]
    assert rows(grids["paper-steps"]) == [
        ["quiz answering", "1.50", "11.75"],
        ["assessment", ".00", "2.46"],
        ["everything else", ".00", "2.93"],
    ]


def test_the_papers_experiments():
    planned = list(experiments(["nq", "hotpotqa"], dense=True, others=["openai/gpt-4o"]))
    assert [(one.dataset, one.dense, one.lm, len(one.specs)) for one in planned] == [
        ("nq", False, None, 17 + 3 + 3 + 4 + 1),
        ("nq", True, None, 2),
        ("nq", False, 0, 2),
        # RAG that reasons as well, as everything does on questions of several hops.
        ("hotpotqa", False, None, 17 + 1),
    ]
    assert [spec.label for spec in planned[2].specs] == ["keqa-gpt-4o", "rag-gpt-4o"]
    without = next(experiments(["hotpotqa"], dense=False, left_out=OF_REFERENCE))
    left_out = {spec.method.name for spec in planned[-1].specs} - {spec.method.name for spec in without.specs}
    assert left_out == {"keqa-no-reference", "keqa-random-reference"}


def test_baselines_that_learned_have_rows_beside_their_own():
    plain, learning = experiments(["hotpotqa"], dense=False, compiled=True)
    assert (plain.compiled, learning.compiled) == (False, True)
    names = {spec.method.name for spec in plain.specs if spec.method.kind == "baseline"}
    # Zero-shot CoT with demonstrations is few-shot CoT.
    assert {spec.method.name for spec in learning.specs} == names - {"cot", "cot-few-shot"}
    assert {spec.label for spec in learning.specs} >= {"rag-compiled", "rag-cot-compiled", "slimplm-compiled"}
    labels = ["keqa-compiled-not", "rowen", "rag-compiled", "keqa", "rag-cot", "rag", "rag-cot-compiled"]
    assert sorted(labels, key=in_table_order) == [
        *("rag", "rag-compiled", "rag-cot", "rag-cot-compiled", "rowen", "keqa", "keqa-compiled-not")
    ]


def test_what_a_method_is_set_up_with(retriever):
    for name in set(DESIGN["rows"]) - {FEW_SHOT, *OF_REFERENCE}:
        for dataset in datasets("keqa"):
            make(parse_spec(name), Parts(retriever("x"), None, settings_for(METHODS[name], dataset)))
    given = {name for name, method in METHODS.items() if "top_k" in settings_for(method, "nq")}
    own = {name for name, method in METHODS.items() if method.kind != "baseline"}
    # The candidates to pick from are for KEQA and what searches like it.
    assert given == own | {"rag", "rag-cot", "rowen", "slimplm"}
    assert settings_for(METHODS["keqa"], "hotpotqa") == {"tries": 5, "threshold": "0.8", "top_k": 10}
    # Questions of one hop are not decomposed.
    pairs = {(name, dataset) for name in METHODS for dataset in datasets("keqa")}
    whole = {pair for pair in pairs if settings_for(METHODS[pair[0]], pair[1]).get("decompose") is False}
    assert whole == {(name, "nq") for name in own}
    # The direct prompt and vanilla RAG are zero-shot; IRCoT calls as often as it searches, and FLARE need not search.
    baselines = {name: settings_for(METHODS[name], "hotpotqa") for name in ("closed-book", "rag", "ircot", "flare")}
    assert baselines == {
        "closed-book": {"demonstrations": False},
        "rag": {"top_k": 10, "demonstrations": False},
        "ircot": {"reader": False},
        "flare": {"first_retrieval": False},
    }
    # Zero-shot CoT goes without in any case.
    bare = {name for name, one in METHODS.items() if "demonstrations" in settings_for(one, "nq", demonstrations=False)}
    assert bare == set(METHODS) - {"cot"}


def test_models_of_any_name_have_labels_of_their_own_that_name_files():
    others = ["ollama_chat/qwen3:8b", "a/same", "b/same", "b/s:ame", "b/s*ame", "x/dense", "c/SAME", "mine/no-qke"]
    planned = list(experiments(["nq"], dense=True, others=others))
    labels = [one.specs[0].label.removeprefix("keqa-") for one in planned if one.lm is not None]
    assert labels == ["qwen3-8b", "same", "b-same", "s-ame", "b-s-ame", "x-dense", "c-SAME", "mine-no-qke"]


def test_a_language_model_labels_what_gold_answers_do_not(run, line, quiz):
    asked = quiz("Who?", ["Ann", "Ann B.", "Bo"], [[0, 1], [2]])
    entries = entries_of([run("keqa", [line(1, 1.0, kind="yes/no", quizzes=[asked])], dataset="strategyqa")])
    assert sorted(pairs_to_label(entries[0], ["strategyqa"])) == [("Who?", "Ann", "Ann B."), ("Who?", "Ann", "Bo")]
    assert pairs_to_label(entries[0], ["nq"]) == []
    assert "paper-table2" not in {grid.name for grid in compare_with_paper(entries)}
    labels = {key_of("who?", "Ann B.", "Ann"): True, key_of("Who?", "Ann", "Bo"): True}
    (table,) = [one for one in compare_with_paper(entries, labels, "openai/judge") if one.name == "paper-table2"]
    # D_s took the first two for the same and the last for another.
    assert rows(table) == [["D_s", ".500", ".774"], ["BERTScore", "", ".671"]]
    assert "labels of openai/judge" in table.notes[0]
    assert "Pairs here: 2 on strategyqa" in table.notes[0]


def test_a_pair_is_labelled_once(scripted, tmp_path):
    def reply(name, inputs, config):
        if inputs["second_answer"] == "Bo":
            raise TimeoutError("no time")
        return {"same": inputs["second_answer"] == "Ann B."}

    lm, engine = scripted(reply)
    pairs = [("Who?", "Ann", "Ann B."), ("Who?", "Ann", "Cy"), ("Who?", "Ann", "Bo")]
    how = {"in_flight": 2, "progress": lambda step, done, total: None}
    found, failed = label_pairs(pairs, lm, tmp_path / "labels.jsonl", **how)
    assert (found, failed) == ({key_of("Who?", "Ann", "Ann B."): True, key_of("Who?", "Ann", "Cy"): False}, 1)
    before = len(engine.calls)
    assert label_pairs(pairs[:2], lm, tmp_path / "labels.jsonl", **how) == (found, 0)
    assert len(engine.calls) == before


def test_like_passages_are_found_by_meaning_where_minilm_is_installed(monkeypatch):
    def missing(name):
        raise MissingExtraError("dense", name)

    monkeypatch.setattr("keqa.programs.reference.embedding.open_model", missing)
    assert (embedder_of(None), embedder_of("hashing-64").name) == ("hashing", "hashing-64")
    # What is named is opened, or refused.
    with pytest.raises(MissingExtraError):
        embedder_of("local/minilm")


def test_where_training_questions_come_from(tmp_path):
    (tmp_path / "nq").mkdir()
    named = {"nq": f"nq:{tmp_path / 'nq'}", "strategyqa": "strategyqa:train.json", "hotpotqa": "hotpotqa"}
    assert training_sources(named, []) == list(named.values())
    given = ["hotpotqa:mine.json"]
    assert training_sources(named, given) == [*list(named.values())[:2], *given]
    with pytest.raises(InputError, match="there twice"):
        training_sources(named, given * 2)
