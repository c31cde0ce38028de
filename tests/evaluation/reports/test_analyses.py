from dataclasses import replace

import numpy as np
import pytest

from keqa.evaluation.reports.figures import gate_figure, probabilities, risk, scores_over_alpha, scores_over_top_k
from keqa.evaluation.reports.gates import gates
from keqa.evaluation.reports.judge import discriminator, pairs_by_group
from keqa.evaluation.reports.paper import by_language_model, by_retriever, costs, costs_by_step
from keqa.evaluation.reports.rows import entries_of, groups_of, main_rows, sweep
from keqa.programs.records import CallCost


def shown(grid):
    return [[cell.text for cell in row.cells] for row in grid.rows]


def one(run):
    return entries_of([run])[0]


def test_the_judge_is_checked_on_the_pairs_that_it_was_shown(run, line, quiz):
    # Right: "gold" and "the gold" (equal without a judge) and "au". The judge took "au" for another and joined "lead".
    asked = quiz("Question 0?", ["gold", "the gold", "au", "lead", "tin", "au"], [[0, 1, 3], [2, 5], [4]])
    keqa = run("keqa", [line(0, 1.0, answers=("gold", "au"), quizzes=[asked])])
    (pairs,) = pairs_by_group([one(keqa)], groups_of([one(keqa)]))
    assert [(pair.first, pair.second, pair.same, pair.truly) for pair in pairs.values()] == [
        ("gold", "au", False, True),
        ("gold", "lead", True, False),
        ("gold", "tin", False, False),
        ("au", "tin", False, False),
    ]
    grid = discriminator([one(keqa)])
    # Similarity of words calls none of the four the same, and is wrong on the first only.
    assert shown(grid) == [
        ["D_s", ".500"],
        ["token F1", ".750"],
        ["ROUGE-L", ".750"],
        ["pairs", "4"],
        ["the same", "1"],
    ]
    assert "BERTScore is left out: " in grid.notes[0]


def test_every_run_with_the_same_judge_adds_its_pairs_and_each_counts_once(run, line, quiz):
    def judged(method, model, *answers, kind="one hop", same=False):
        clusters = [[*range(len(answers))]] if same else [[number] for number in range(len(answers))]
        lines = [line(0, 1.0, kind=kind, quizzes=[quiz("Question 0?", answers, clusters)])]
        return run(method, lines, models={"task": {"model": "t"}, "consistency": {"model": model}})

    runs = [
        judged("keqa-no-ukp", "j", "gold", "lead", "tin"),
        judged("keqa", "j", "lead", "gold", same=True),
        judged("gate-never", "another", "gold", "zinc"),
    ]
    # Of gold and lead KEQA's own verdict stands, which is wrong; that of gold and tin comes from the ablation.
    grid = discriminator(entries_of(runs))
    assert [shown(grid)[0], shown(grid)[-2]] == [["D_s", ".500"], ["pairs", "2"]]
    # A quiz of questions of two kinds counts in the column of each, and once in that of all.
    other = line(1, 1.0, kind="bridge", quizzes=runs[1].lines[0].record.quizzes)
    other = other.model_copy(update={"quiz_golds": {"Question 0?": ["gold"]}})
    two = replace(runs[1], lines=[*runs[1].lines, other])
    grid = discriminator(entries_of([two]))
    assert [column.group for column in grid.columns] == ["", "one hop", "bridge", "all"]
    assert shown(grid)[-2] == ["pairs", "1", "1", "1"]


def test_bert_score_stands_beside_the_judge_where_there_is_an_encoder(run, line, quiz, monkeypatch):
    class Encoder:
        """Each word a token; those that begin alike are alike."""

        def embed_tokens(self, texts):
            return [np.array([np.eye(128)[ord(word[0])] for word in text.split()]) for text in texts]

    monkeypatch.setattr("keqa.retrievers.embedding.open_model", lambda name: Encoder())
    asked = quiz("Question 0?", ["gold bar", "golden beam", "lead"], [[0], [1], [2]])
    grid = discriminator([one(run("keqa", [line(0, 1.0, answers=("gold bar",), quizzes=[asked])]))])
    # It takes "golden beam" for "gold bar", of which only the latter is right.
    assert shown(grid)[:4] == [["D_s", "1.000"], ["token F1", "1.000"], ["ROUGE-L", "1.000"], ["BERTScore", ".500"]]
    assert grid.notes[0].endswith("BERTScore is F1 over the token embeddings of local/minilm, not rescaled.")


def test_quizzes_without_gold_answers_say_nothing_of_the_judge(run, line, quiz):
    asked = line(0, 1.0, quizzes=[quiz("Another quiz?", ["a", "b"], [[0], [1]])])
    assert discriminator([one(run("keqa", [asked]))]) is None
    asked = asked.model_copy(update={"quiz_golds": {"Another quiz?": ["a"]}})
    assert shown(discriminator([one(run("keqa", [asked]))]))[0] == ["D_s", "1.000"]


def gate_run(run, line, quiz, method, verdicts, **settings):
    """Five tries each; (T_c in fifths, right, retrieved)."""
    lines = []
    for number, (agreeing, right, retrieved) in enumerate(verdicts):
        answers = ["gold" if right else "lead"] * agreeing + [f"other {n}" for n in range(5 - agreeing)]
        clusters = [list(range(agreeing)), *([n] for n in range(agreeing, 5))]
        chance = [agreeing / 10] * 5
        asked = quiz(f"Question {number}?", answers, clusters, retrieved=retrieved, probabilities=chance)
        lines.append(line(number, float(right or retrieved), quizzes=[asked], retrievals=int(retrieved)))
    return run(method, lines, **settings)


@pytest.fixture
def gate_runs(run, line, quiz):
    quizzes = [(5, True, False), (4, True, False), (3, False, True), (2, True, True)]
    return entries_of(
        [
            gate_run(run, line, quiz, "gate-votes", quizzes, gate="votes"),
            gate_run(run, line, quiz, "gate-never", [(n, r, False) for n, r, _ in quizzes], gate="never retrieve"),
            gate_run(run, line, quiz, "gate-always", [(n, r, True) for n, r, _ in quizzes], gate="always retrieve"),
        ]
    )


def test_gates_are_ranked_by_what_they_say_of_memory(gate_runs):
    grid = gates(gate_runs)
    # Right at T_c 1, .8 and .4, wrong at .6: of the three pairs of right and wrong two are in order. Risk by coverage
    # is 0, 0, 1/3, 1/4, so AURC .146; PRR (.25 - .1458) / (.25 - .0625). ECE (0 + .2 + .6 + .6) / 4.
    # By chance half of the quizzes searched for score halfway from .75 to 1.
    vote = ["KEQA's vote", "", ".500", "1.000", "1.000", ".875", "4", ".750", ".667", ".556", ".146", ".350"]
    assert shown(grid)[0] == vote
    assert [row[:5] for row in shown(grid)[1:]] == [
        ["Never retrieve", "", ".000", ".750", ".750"],
        ["Always retrieve", "", "1.000", "1.000", "1.000"],
    ]


def test_every_gate_shows_its_threshold_and_which_is_not_its_default(scored):
    entries = entries_of(
        [
            scored("gate-votes", (1, 0), gate="votes", threshold="1/1"),
            scored("gate-certainty", (1, 0), gate={"kind": "CertaintyGate", "threshold": "4/5"}, threshold=None),
            scored("gate-probability", (1, 0), gate={"kind": "ProbabilityGate", "threshold": "1/2"}, threshold=None),
            scored("gate-random", (1, 0), gate={"kind": "RandomGate", "threshold": "1/3"}, threshold=None),
            scored("gate-prompt", (1, 0), gate={"kind": "PromptGate", "threshold": None}, threshold=None),
            scored("gate-always", (1, 0), gate={"kind": "AlwaysRetrieveGate", "threshold": None}, threshold=None),
            scored("gate-oracle", (1, 0), gate="oracle", threshold=None),
        ]
    )
    grid = gates(entries)
    assert [column.name for column in grid.columns][:3] == ["gate", "threshold", "ratio"]
    assert [row[:2] for row in shown(grid)] == [
        ["KEQA's vote", "1.000"],
        ["Certainty", ".800"],
        ["Token probability", ".500"],
        ["Random", ".333"],
        ["Prompt", ""],
        ["Always retrieve", ""],
        ["Oracle", ""],
    ]
    assert grid.notes[0].startswith(
        "Thresholds are the gates' defaults, except where a compiled program brought its own or one was given: KEQA's "
        "vote 1.000 instead of .800. What is searched for, and so ratio, F1 and EM, depends on them"
    )
    usual = entries_of([scored("gate-votes", (1, 0), gate="votes", threshold="4/5")])
    assert gates(usual).notes[0].startswith("Thresholds are the gates' defaults. What is searched for")
    assert not any("random gate" in note for note in gates(usual).notes)


def test_the_gates_report_of_how_many_quizzes_an_oracle_knew_the_answer(run, line, quiz):
    decided = [quiz(f"Quiz {n}?", ["a"] * 5, [[0, 1, 2, 3, 4]], known=n == 0) for n in range(3)]
    expected = line(0, 1.0, quizzes=decided).model_copy(update={"golds": {"Quiz 0?": ["a"]}})
    nothing = line(1, 1.0, quizzes=decided[:1]).model_copy(update={"golds": {}})
    grid = gates(entries_of([run("gate-oracle", [expected, nothing], gate="oracle")]))
    assert grid.notes[-1].startswith("Oracle: the gold answer is known of 1 of 4 quizzes (25.0 %)")
    # A run of any other gate says nothing of it.
    other = gates(entries_of([run("gate-votes", [line(0, 1.0, quizzes=decided)], gate="votes")]))
    assert not any("the gold answer is known" in note for note in other.notes)


def test_a_gate_that_stopped_early_has_no_curve(run, line, quiz):
    short = quiz("Question 0?", ["gold"] * 4, [[0, 1, 2, 3]], complete=False)
    entries = entries_of([run("gate-votes", [line(0, 1.0, quizzes=[short])], gate="votes")])
    assert shown(gates(entries))[0][5:] == ["0", "", "", "", "", ""]
    assert risk(entries) is None


def test_accuracy_against_retrieval_ratio(gate_runs):
    figure = gate_figure(gate_runs)
    (panel,) = figure.panels
    assert [(series.name, series.x, series.y) for series in panel.series] == [
        ("chance", (0.0, 1.0), (0.75, 1.0)),
        ("KEQA's vote", (0.5,), (1.0,)),
        ("Never retrieve", (0.0,), (0.75,)),
        ("Always retrieve", (1.0,), (1.0,)),
    ]
    curves = risk(gate_runs)
    assert curves.panels[0].series[0].x == (0.25, 0.5, 0.75, 1.0)
    assert curves.panels[0].series[0].y == pytest.approx((0, 0, 1 / 3, 1 / 4))


def test_probability_of_the_answer_over_consistency(gate_runs):
    (panel,) = probabilities(gate_runs).panels
    assert panel.series[0].x == (0.4, 0.6, 0.8, 1.0)
    assert panel.series[0].y == pytest.approx((0.2, 0.3, 0.4, 0.5))


def test_a_quiz_asked_twice_counts_once(run, line, quiz):
    same = quiz("Who?", ["a"] * 2, [[0, 1]], probabilities=[0.5, 0.7])
    other = quiz("who? ", ["a"] * 2, [[0, 1]], probabilities=[0.1, 0.1])
    (panel,) = probabilities(
        entries_of([run("keqa", [line(0, 1.0, quizzes=[same]), line(1, 1.0, quizzes=[other])])])
    ).panels
    assert panel.series[0].y == (0.6,)


@pytest.fixture
def swept(scored):
    settings = {"gate": "votes", "threshold": "4/5", "top_k": 10, "index": "TantivyRetriever", "model": "lm-a"}
    full = {name: value for name, value in settings.items() if name not in ("gate", "threshold")} | {"examine": False}
    return entries_of(
        [
            scored("keqa", (1, 1, 1, 0), **settings),
            scored("keqa", (1, 0, 0, 0), label="keqa-threshold=0.4", **settings | {"threshold": "2/5"}),
            scored("keqa", (1, 1, 0, 0), label="keqa-threshold=1.0", **settings | {"threshold": "1"}),
            scored("keqa", (0, 0, 0, 0), label="keqa-top_k=5", **settings | {"top_k": 5}),
            scored("keqa-full", (0, 1, 0, 0), label="keqa-full-top_k=5", **full | {"top_k": 5}),
            scored("keqa-full", (0, 0, 0, 0), label="keqa-full-top_k=10", **full),
            scored("keqa", (1, 1, 1, 1), label="keqa-dense", **settings | {"index": "DenseRetriever"}),
            scored("keqa", (0, 0, 1, 0), label="keqa-b", **settings | {"model": "lm-b"}),
            scored("keqa", (1, 1, 1, 1), label="keqa-mine", **settings | {"prompts": "other"}),
            scored("rag", (1, 0, 0, 0), top_k=10, index="TantivyRetriever", model="lm-a"),
            scored("rag", (1, 1, 0, 0), label="rag-dense", top_k=10, index="DenseRetriever", model="lm-a"),
        ]
    )


def test_scores_over_alpha_and_top_k(swept):
    (panel,) = scores_over_alpha(swept).panels
    assert (panel.series[0].x, panel.series[0].y) == ((0.4, 0.8, 1.0), (0.25, 0.75, 0.5))
    (panel,) = scores_over_top_k(swept).panels
    assert [(series.name, series.x, series.y) for series in panel.series] == [
        ("KEQA", (5.0, 10.0), (0.0, 0.75)),
        ("Full", (5.0, 10.0), (0.25, 0.0)),
    ]


def test_other_retrievers_and_language_models(swept):
    assert shown(by_retriever(swept)) == [
        ["KEQA w BM25", ".750"],
        ["RAG w BM25", ".250"],
        ["KEQA w dense", "1.000"],
        ["RAG w dense", ".500"],
    ]
    assert shown(by_language_model(swept)) == [["KEQA w lm-a", ".750"], ["KEQA w lm-b", ".250"]]


def test_points_of_figures_are_no_rows_of_table_1(swept):
    assert [entry.label for entry in main_rows(swept)] == ["rag", "keqa", "keqa-mine"]


def test_a_single_value_makes_no_figure(scored):
    entries = entries_of([scored("keqa", (1,), gate="votes", threshold="4/5", top_k=10, index="T", model="m")])
    assert scores_over_alpha(entries) is None
    assert scores_over_top_k(entries) is None
    assert by_retriever(entries) is None
    assert by_language_model(entries) is None
    assert gates(entries) is None
    assert sweep(entries, "keqa", "threshold") == []


def timed(line, seconds):
    return line.model_copy(update={"seconds": seconds})


def test_costs_of_a_question(run, line):
    lines = [timed(line(0, 1.0, retrievals=0, calls=4), 2.0), timed(line(1, 1.0), 1.0), timed(line(2, 1.0), 6.0)]
    grid = costs(entries_of([run("keqa", lines)]))
    assert [column.name for column in grid.columns] == ["method", "R", "L", "token", "time", "p50", "p95", "total"]
    # The 95th percentile lies .9 of the way from the second to the third.
    assert shown(grid) == [["KEQA", ".67", "2.67", "100", "3.00", "2.00", "5.60", "9.0"]]
    assert len(grid.notes) == 1


def test_the_time_of_a_cache_is_no_time_of_a_method(run, line):
    some = [timed(line(0, 1.0, calls=3, cached=1), 0.01), timed(line(1, 1.0), 4.0)]
    grid = costs(entries_of([run("keqa", some), run("rag", [timed(line(0, 1.0, calls=0, cached=2), 0.01)])]))
    assert shown(grid) == [
        ["Always retrieve", "1.00", "2.00", "100", "", "", "", ".0"],
        ["KEQA", "1.00", "3.00", "100", "4.00", "4.00", "4.00", "4.0"],
    ]
    assert grid.notes[1].startswith(
        "The time is that of questions whose calls no cache answered: Always retrieve 0 of 1, KEQA 1 of 2."
    )
    assert "--no-cache" in grid.notes[1]


def stepped(line, **steps):
    """The same line with the seconds of its steps, one LM call each."""
    by_step = {name.replace("_", "."): CallCost(calls=1, samples=1, seconds=seconds) for name, seconds in steps.items()}
    cost = line.record.cost.model_copy(update={"by_step": by_step, "retrieval_seconds": 0.5})
    return line.model_copy(update={"record": line.record.model_copy(update={"cost": cost})})


def test_seconds_by_step(run, line):
    own = dict(examination_quiz=4.0, examination_same=2.0, decomposition_decompose=1.0, answering_answer=0.25)
    lines = [stepped(line(0, 1.0), **own), stepped(line(1, 1.0), examination_quiz=2.0)]
    # What a cache answered took no time worth telling, and counts as LM calls all the same.
    cached = stepped(line(2, 1.0, calls=1, cached=1), examination_quiz=0.0)
    before = run("keqa-no-ukp", [line(0, 1.0)])
    baseline = run("rag", [stepped(line(0, 1.0), answer=1.0)])
    grid = costs_by_step(entries_of([run("keqa", [*lines, cached]), before, baseline]))
    assert [column.full for column in grid.columns][1:] == [
        "seconds quiz answering",
        "seconds assessment",
        "seconds everything else",
        "LM calls quiz answering",
        "LM calls assessment",
        "LM calls everything else",
    ]
    assert shown(grid) == [["KEQA", "3.00", "1.00", "1.12", "1.00", ".33", ".67"]]
    assert "KEQA 2 of 3" in grid.notes[1]
    assert costs_by_step(entries_of([before, baseline])) is None
