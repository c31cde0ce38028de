"""KBM's draws without and with passages, and answers that a language model judges."""

import dspy
import pytest
from conftest import SayingEngine
from fixtures.run_files import make_line, make_run, shown

from keqa.evaluation.reproduction.kbm import case_study, drawn_tables, judged, specs_of
from keqa.optimize.boundary.collect import Collected, CollectedQuiz
from keqa.programs.boundary.light import root_digest
from keqa.signatures.boundary import accuracy_prompt


def quiz(number, drawn, reference=None):
    """A question and its draws, as many of each answer as are said; Bo is right."""
    draws = [{"text": text, "right": text == "Bo"} for text, times in drawn.items() for _ in range(times)]
    about = {"root": root_digest(str(number)), "quiz": f"Question {number}?", "golds": ["Bo"]}
    return CollectedQuiz(**about, draws=draws, reference=reference)


# By memory, by passages: what they do to accuracy and to certainty, worked out by hand.
DRAWN = [
    ({"Bo": 10}, {"Bo": 5, "Al": 5}),  # accuracy 1, harmful; certainty 1, harmful.
    ({"Al": 10}, {"Bo": 10}),  # accuracy 0, beneficial; certainty 1, neutral.
    ({"Bo": 5, "Al": 5}, {"Bo": 10}),  # accuracy .5, beneficial; certainty 0, beneficial.
    ({"Bo": 9, "Al": 1}, {"Bo": 9, "Al": 1}),  # accuracy .9, neutral; certainty .531, neutral.
]


@pytest.fixture
def collected():
    memory = [quiz(number, before) for number, (before, _) in enumerate(DRAWN)]
    read = [quiz(number, after, "Bo governs.") for number, (_, after) in enumerate(DRAWN)]
    return Collected([*memory, *read, quiz(9, {"Bo": 10})], "webqa")


def table_of(name, *drawn):
    (grid,) = [grid for grid in drawn_tables(*drawn) if grid.name == name]
    return grid


def test_each_indicator_has_changes_of_its_own(collected):
    grid = table_of("kbm-figure2", "webqa", collected, None)
    rows = {row[0]: row[1:] for row in shown(grid)}
    nothing = ["0", "", "", "", "", "", "", ""]
    # Questions; beneficial, neutral, harmful; accuracy without and with passages, and certainty.
    assert rows == {
        "accuracy [0, .2)": ["1", "100.0 %", "0.0 %", "0.0 %", ".000", "1.000", "1.000", "1.000"],
        "accuracy [.2, .4)": nothing,
        "accuracy [.4, .6)": ["1", "100.0 %", "0.0 %", "0.0 %", ".500", "1.000", ".000", "1.000"],
        "accuracy [.6, .8)": nothing,
        "accuracy [.8, 1]": ["2", "0.0 %", "50.0 %", "50.0 %", ".950", ".700", ".766", ".266"],
        "accuracy, all": ["4", "50.0 %", "25.0 %", "25.0 %", ".600", ".850", ".633", ".633"],
        "certainty [0, .2)": ["1", "100.0 %", "0.0 %", "0.0 %", ".500", "1.000", ".000", "1.000"],
        "certainty [.2, .4)": nothing,
        "certainty [.4, .6)": ["1", "0.0 %", "100.0 %", "0.0 %", ".900", ".900", ".531", ".531"],
        "certainty [.6, .8)": nothing,
        "certainty [.8, 1]": ["2", "0.0 %", "50.0 %", "50.0 %", ".500", ".750", "1.000", ".500"],
        "certainty, all": ["4", "25.0 %", "50.0 %", "25.0 %", ".600", ".850", ".633", ".633"],
    }
    masked = Collected([quiz(number, {"Bo": 1, "MASK": 9}, "MASK governs.") for number in range(2)])
    beside = table_of("kbm-figure2", "webqa", collected, masked).records[-1]
    assert (beside["accuracy MASK RAG"], beside["certainty MASK RAG"]) == (0.1, pytest.approx(0.531, abs=1e-4))
    assert "correlation of accuracy and certainty: -.0" in grid.notes[0]
    assert drawn_tables("webqa", Collected(collected.quizzes[:4]), None) == []


def test_what_thresholds_save_with_the_papers_figures_on_its_data_alone(collected):
    # From memory go the first and the last: (1 + .9 - .5 - .9) / 4. By 1 - H > .8 the first two: (1 + 0 - .5 - 1) / 4.
    here = [["accuracy > .8", "50.0 %", "+12.50"], ["certainty > .8", "50.0 %", "-12.50"]]
    assert [row[:3] for row in shown(table_of("kbm-thresholds", "webqa", collected, None))][:2] == here
    assert [row[3:] for row in shown(table_of("kbm-thresholds", "webqa", collected, None))] == [
        ["55.47", "0.92", "80.95", "2.52"],
        ["41.45", "-4.15", "61.56", "-1.56"],
        ["", "", "", ""],
    ]
    assert [len(row) for row in shown(table_of("kbm-thresholds", "mine", collected, None))] == [3, 3, 3]


def test_how_often_a_certain_answer_is_the_mask(collected):
    drawn = [{"MASK": 10}, {"Bo": 10}, {"MASK": 9, "Al": 1}, {"mask.": 10}]
    masked = Collected([quiz(number, some, "MASK governs.") for number, some in enumerate(drawn)])
    assert shown(table_of("kbm-first-figure2", "webqa", collected, masked)) == [
        ["1", "3", "66.7 %", "33.3 %"],
        ["below 1", "1", "100.0 %", "0.0 %"],
    ]


def test_rows_with_the_boundary_model_and_where_it_judges_again(tmp_path):
    found = {spec.label: spec.arguments for spec in specs_of("mmlu", tmp_path / "kbm.json", light=False)}
    model = str(tmp_path / "kbm.json")
    assert list(found)[:5] == ["closed-book", "rag", "rag-masked", "self-rag", "kbm"]
    assert found["kbm-acc"] == {"model": model, "of": "mastery"}
    assert found["kbm-cer"] == {"model": model, "of": "certainty"}
    assert found["kbm-again"] == {"model": model, "rejudge": True}
    assert specs_of("mmlu", tmp_path / "kbm.json", light=True)[-1].arguments == {"rejudge": True}
    assert specs_of("nq", tmp_path / "kbm.json", light=False, other=True)[-1].label == "kbm-cer"
    sized = [spec.label for spec in specs_of("sogouqa", None, light=False, other=True)]
    assert sized == ["closed-book", "rag", "rag-masked"]


def test_a_case_of_each_way_to_be_right():
    def lines(*right, known=(None,) * 4, says=""):
        quizzes = [[{"index": 1, "text": "Who?", "source": "memory", "known": one}] for one in known]
        made = [make_line(n, float(some), quizzes=quizzes[n]) for n, some in enumerate(right)]
        return [one.model_copy(update={"answer": says or one.answer}) for one in made]

    alone = lines(1, 0, 0, 1, says="I do not know.")
    alone[2] = alone[2].model_copy(update={"answer": "Al"})
    grid = case_study(alone, lines(1, 1, 1, 0, known=(True, False, False, False)))
    assert [(row[0], row[1], row[3]) for row in shown(grid)] == [
        ("known, and memory is right", "Question 0?", "I do not know."),
        ("unknown, and memory does not tell", "Question 1?", "I do not know."),
        ("unknown, and memory is wrong", "Question 2?", "Al"),
    ]
    assert case_study(alone, lines(0, 0, 0, 0)) is None


def says(request):
    """Says 1 where the prediction holds the answer, and is down for one."""
    text = request.messages[-1].text
    return "?" if "unclear" in text else "1" if "预测: 在东京。" in text else "0"


def test_a_language_model_judges_open_chinese_answers_as_in_the_paper(tmp_path):
    said = ("东京", "在东京。", "大阪", "unclear")
    lines = [
        make_line(n, float(n == 0), answers=("东京",)).model_copy(update={"answer": text})
        for n, text in enumerate(said)
    ]
    runs = [make_run("rag", lines, dataset=name) for name in ("webqa", "nq")]
    engine = SayingEngine(says)
    lm = dspy.LM("scripted/judge", engine=engine, cache=False)
    how = {"in_flight": 1, "progress": lambda *_: None}
    (chinese, english), failed = judged(runs, lm, tmp_path / "judgements.journal", **how)
    assert [line.right for line in chinese.lines] == [True, True, False, False]
    assert [line.right for line in english.lines] == [True, False, False, False]
    assert failed == 1
    # What is exactly right is not asked, and nothing is asked twice.
    assert [one.messages[-1].text for one in engine.requests] == [accuracy_prompt(one, "东京") for one in said[1:]]
    judged(runs, lm, tmp_path / "judgements.journal", **how)
    assert len(engine.requests) == 4
    assert accuracy_prompt("{answer}", "东京") == (
        "给定预测和答案,如果预测中含有答案请输出1,不包含则输出0.\n预测: {answer}\n答案: 东京\n输出: "
    )
