"""The KS-LLM paper's tables from run files."""

import pytest
from fixtures.run_files import make_line, make_run, shown

from keqa.evaluation.reports.published import published
from keqa.evaluation.reproduction.ks_llm_tables import ROWS, KSRun, ks_llm_tables, selection_recall
from keqa.programs.records import CallCost, Cost, EvidenceSentence, PassageVerdict, QuizRecord


def quiz(sentence, **others):
    selected = EvidenceSentence(text=sentence, passage_id="p", nearest_to="Ann | mayor | Skarn", distance=0.5)
    read = {"retrieved": True, "evidence": [sentence], "selected": [selected], "triples": ["Ann | mayor | Skarn"]}
    return QuizRecord(index=1, text="Who?", **read | others)


def passage(text, *, kept=True):
    return PassageVerdict(passage_id="p", title="", text=text, score=1, verdict="unjudged", kept=kept, why="")


def line(number, right, **story):
    cost = Cost(by_role={"task": CallCost(calls=1, samples=1, seconds=1.5)})
    made = make_line(number, float(right), answers=("Ann Berg",), cost=cost, **story)
    return made.model_copy(update={"answer": "Ann Berg" if right else "Bo"})


def run(method, *lines, lm="one", **arguments):
    return KSRun("webquestions", lm, method, arguments, make_run(method, lines, dataset="webquestions"))


HELD, NOT_HELD = quiz("Its mayor is Ann Berg."), quiz("Fish is sold.")
RUNS = [
    run("standard", line(1, False), line(2, True)),
    run("standard-doc", line(1, False, passages=[passage("Ann Berg.")]), line(2, True, passages=[passage("Fish.")])),
    run("standard-doc", line(1, True, passages=[passage("Ann Berg.")]), document_tokens=500),
    run("ks-llm", line(1, True, quizzes=[HELD]), line(2, False, quizzes=[NOT_HELD])),
    run("ks-llm", line(1, True, quizzes=[HELD]), line(2, True, quizzes=[HELD]), evidence_sentences=5),
    run("ks-llm", line(1, False, quizzes=[HELD]), lm="two"),
]


def rows(name):
    (grid,) = [grid for grid in ks_llm_tables(RUNS) if grid.name == name]
    return shown(grid)


@pytest.mark.parametrize(
    ("story", "held"),
    [
        ({"quizzes": [HELD]}, True),
        ({"quizzes": [NOT_HELD]}, False),
        ({"quizzes": [quiz("x", retrieved=False, evidence=[])]}, None),
        ({"passages": [passage("Ann Berg.")]}, True),
        # What was beyond the length of the document was not read.
        ({"passages": [passage("Fish."), passage("Ann Berg.", kept=False)]}, False),
        ({}, None),
    ],
)
def test_whether_what_was_read_holds_the_answer(story, held):
    assert selection_recall(line(1, True, **story)) is held


def test_table_1_has_every_row_and_the_paper_with_remarks_beside():
    found = rows("ks-llm-table1")
    assert [row[0] for row in found] == ["Standard", "Standard+doc", "CoT+doc", "KS-Q", "KS-T", "KS-S", "KS-LLM"]
    assert found[0] == ["Standard", "50.00", "", "", "", "17.91", "23.18", "17.08"]
    assert found[1] == ["Standard+doc", "50.00", "50.00", "", "", "18.31", "23.47", "17.52"]
    assert found[6] == ["KS-LLM", "50.00", "50.00", "0.00", "100.00", "21.85", "24.70", "21.11"]
    assert found[2][1:5] == ["", "", "", ""]
    notes = " ".join(ks_llm_tables(RUNS)[0].notes)
    assert "by 6.35 (13B) and 6.89 (7B)" in notes
    figures = published("ks-llm", "table1")

    def over(row, dataset, lm):
        return round(figures["ks-llm", dataset, lm] - figures[row, dataset, lm], 2)

    assert [over("standard", "triviaqa-verified", lm) for lm in ("Llama2-13B", "Llama2-7B")] == [-6.35, -6.89]
    assert [over(row, "webquestions", "Vicuna-13B") for row in ROWS[:2]] == [3.94, 3.54]


def test_table_2_is_the_length_of_the_document():
    assert rows("ks-llm-table2") == [
        ["Standard", "", "50.00", "", "3.0", "51.45", "3:40"],
        ["Standard+doc", "300", "50.00", "50.00", "3.0", "52.69", "4:41"],
        ["Standard+doc", "500", "100.00", "100.00", "1.5", "49.52", "5:22"],
        ["KS-LLM", "", "50.00", "50.00", "3.0", "58.48", ""],
    ]


def test_figure_3_is_k():
    assert rows("ks-llm-figure3") == [
        ["2", "50.00", "50.00", "21.85"],
        ["5", "100.00", "100.00", ""],
        ["Standard", "50.00", "", "17.91"],
        ["Standard+doc", "50.00", "50.00", "18.31"],
    ]


def test_table_3_is_a_case_that_only_ks_llm_gets_right():
    found = {row[0]: row[1:] for row in rows("ks-llm-table3")}
    assert found["Standard"] == ["Bo", "Babe Ruth"]
    assert found["evidence"][0] == "Its mayor is Ann Berg. (0.50)"
    assert found["KS-LLM"] == ["Ann Berg", "Boston Braves"]
    assert [grid.name for grid in ks_llm_tables([RUNS[0]])] == ["ks-llm-table1"]
    # Of two that it gets right the one that others get wrong, though they were not asked both.
    both = run("ks-llm", line(1, True, quizzes=[NOT_HELD]), line(2, True, quizzes=[NOT_HELD]))
    (case,) = [grid for grid in ks_llm_tables([run("standard", line(2, False)), both]) if grid.name == "ks-llm-table3"]
    assert shown(case)[0][1] == "Question 2?"
