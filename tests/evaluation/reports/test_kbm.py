"""KBM's tables from run files made by hand."""

import pytest

from keqa.evaluation.records import ModelSettings, Run
from keqa.evaluation.reports import tables
from keqa.evaluation.reports.kbm import compared, kbm_tables, random_score
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reproduction.published import published
from keqa.programs.records import PassageVerdict


@pytest.fixture
def made(run, line, quiz):
    """Four questions: memory knows the first two, passages give the second and third, KBM searches for the last two."""

    def asked(method, right, searched, *, known=None, dataset="nq", **settings):
        lines = []
        for number, (em, retrieved) in enumerate(zip(right, searched, strict=True)):
            text = f"Question {number}?"
            judged = [quiz(text, ["x"], [[0]], known=not retrieved, retrieved=retrieved)] if known else []
            judged = [one.model_copy(update={"samples": [], "clusters": []}) for one in judged]
            lines.append(line(number, float(em), retrievals=int(retrieved), quizzes=judged))
        made = run(method, lines, dataset=dataset)
        configuration = made.header.configuration.model_copy(update={"settings": settings})
        return Run(made.header.model_copy(update={"configuration": configuration}), made.lines)

    return [
        asked("closed-book", (1, 1, 0, 0), (0, 0, 0, 0)),
        asked("rag", (0, 1, 1, 0), (1, 1, 1, 1)),
        asked("kbm", (1, 1, 1, 0), (0, 0, 1, 1), known=True, model={"kind": "light"}, of="certainty"),
    ]


def shown(grid):
    return [[cell.text for cell in row.cells] for row in grid.rows]


def test_random_retrieval_at_the_same_ratio(made):
    (found,) = compared(entries_of(made))
    # Half of the questions: half of .5 from passages, and half of .5 from memory.
    assert random_score(found.judged[0], found) == 0.5


def test_table_1_with_the_papers_figures_beside(made):
    grid = kbm_tables(entries_of(made))[0]
    assert [column.full for column in grid.columns] == [
        "method",
        *("A/E", "Rnd", "Rat", "A/E in the paper", "Rnd in the paper", "Rat in the paper"),
        *("tokens", "seconds"),
    ]
    assert [row[1:7] for row in shown(grid)] == [
        [".500", "", "0.0 %", "35.6 %", "", ""],
        [".500", "", "100.0 %", "61.6 %", "", ""],
        [".750", ".500", "50.0 %", "61.3 %", "55.2 %", "97.5 %"],
    ]
    assert "Its Table 3 prints a ratio of 100" in grid.notes[1]


def test_what_is_called_known_and_unknown(made):
    grid = kbm_tables(entries_of(made))[1]
    assert [row[1:] for row in shown(grid)] == [
        ["known", "2", "1.000", ".500", "1.000"],
        ["unknown", "2", ".000", ".500", ".500"],
    ]


def test_gains_and_losses_by_how_often_memory_is_right(made, run, line, quiz):
    draws = [("gold", "gold"), ("gold", "other"), ("other", "other"), ("other", "other")]
    lines = [
        line(number, 0.0, quizzes=[quiz(f"Question {number}?", answers, [[0, 1]])])
        for number, answers in enumerate(draws)
    ]
    grid = kbm_tables(entries_of([*made, run("gate-never", lines, dataset="nq")]))[2]
    assert shown(grid) == [
        ["[0, 0.2)", "2", ".000", ".500", "1", "0", ".500", "1", "0"],
        ["[0.4, 0.6)", "1", "1.000", "1.000", "0", "0", "1.000", "0", "0"],
        ["[0.8, 1]", "1", "1.000", ".000", "0", "1", "1.000", "0", "0"],
    ]


def test_the_published_figures():
    first, second, third, fourth = (published("kbm", f"table{number}") for number in range(1, 5))
    assert (first["kbm-acc", "Rat", "webqa"], first["self-rag", "A/E", "chinese-simpleqa"]) == (56.8, 18.03)
    datasets = {dataset for _, _, dataset in first}
    means = [sum(first[row, "A/E", name] for name in datasets) / len(datasets) for row in ("llm", "rag", "kbm-cer")]
    assert [round(mean, 2) for mean in means] == [53.41, 79.16, 79.22]
    assert second["kbm-acc", "Rat", "never-changing"] == 75.9
    # As printed it is 100, of a row that never searches.
    assert third["llm", "Rat", "hotpotqa"] == 0
    assert third["kbm-cer", "A/E", "multi-hop"] == 48.7
    # The two versions of the paper differ by seven points.
    assert ("prompt", "Rnd", "GPT-4o", "webqa") not in fourth
    assert fourth["prompt", "Rnd", "GPT-4o", "nq"] == 56.6


def by(run, lm, **header):
    """The same run on a named language model."""
    configuration = run.header.configuration.model_copy(update={"models": {"task": ModelSettings(model=lm)}})
    return Run(run.header.model_copy(update={"configuration": configuration, **header}), run.lines)


def test_other_language_models_beside_those_of_the_paper(made):
    first, second = ([by(one, lm) for one in made] for lm in ("small", "large"))
    # The larger one answers all from memory.
    known = [one.model_copy(update={"scores": one.scores | {"em": 1.0}}) for one in second[0].lines]
    second[0] = Run(second[0].header, known)
    found = {grid.name: grid for grid in tables(entries_of([*first, *second]))}
    grid = found["kbm-table4"]
    assert [column.full for column in grid.columns] == ["language model", "method", "A/E", "Rnd", "Rat"]
    assert shown(grid)[:6] == [
        ["small", "Closed book", ".500", "", "0.0 %"],
        ["small", "Always retrieve", ".500", "", "100.0 %"],
        ["small", "KBM", ".750", ".500", "50.0 %"],
        ["large", "Closed book", "1.000", "", "0.0 %"],
        ["large", "Always retrieve", ".500", "", "100.0 %"],
        # Half of the questions at .5 from passages, half at 1 from memory.
        ["large", "KBM", ".750", ".750", "50.0 %"],
    ]
    assert shown(grid)[6:9] == [
        ["GPT-4o, in the paper", "LLM", "55.6 %", "", ""],
        ["GPT-4o, in the paper", "RAG", "60.1 %", "", ""],
        ["GPT-4o, in the paper", "Prompt", "55.7 %", "56.6 %", "18.0 %"],
    ]
    assert len(grid.rows) == 6 + 3 * 6
    # One language model's rows are not compared with another one's.
    assert [row[:3] for row in shown(found["kbm-table1"])] == [
        ["Closed book", ".500", ""],
        ["Always retrieve", ".500", ""],
        ["KBM", ".750", ".500"],
    ]


def test_one_language_model_or_other_data_have_less_to_show(made):
    assert "kbm-table4" not in [grid.name for grid in tables(entries_of(made))]
    # Without a row of KBM a language model is none of the table's.
    assert "kbm-table4" not in [
        grid.name for grid in tables(entries_of([*made, *(by(one, "large") for one in made[:2])]))
    ]
    mine = [by(one, lm, dataset="mine") for lm in ("small", "large") for one in made]
    (grid,) = (one for one in tables(entries_of(mine)) if one.name == "kbm-table4")
    assert (len(grid.rows), len(grid.notes)) == (6, 1)


def test_by_how_often_the_answer_stands_in_what_was_found(made):
    def found(line, names):
        passages = [
            PassageVerdict(passage_id=str(place), title="", text=text, score=1.0, verdict="unjudged", kept=True, why="")
            for place, text in enumerate(["It is Gold."] * names + ["It is golden."])
        ]
        return line.model_copy(update={"record": line.record.model_copy(update={"passages": passages})})

    lines = [found(line, names) for line, names in zip(made[1].lines, (0, 1, 4, 3), strict=True)]
    runs = [made[0], Run(made[1].header, lines), made[2]]
    (grid,) = (one for one in tables(entries_of(runs)) if one.name == "kbm-figure6")
    assert [column.full for column in grid.columns][:4] == [
        "passages with the answer",
        "questions",
        "Closed book A/E",
        "Closed book Rat",
    ]
    assert shown(grid) == [
        ["none", "1", "1.000", "0.0 %", ".000", "100.0 %", "1.000", "0.0 %"],
        ["1", "1", "1.000", "0.0 %", "1.000", "100.0 %", "1.000", "0.0 %"],
        ["3 to 5", "2", ".000", "0.0 %", ".500", "100.0 %", ".500", "100.0 %"],
    ]


def test_with_the_answers_masked(made, run, line):
    lines = [line(number, float(em)) for number, em in enumerate((1, 0, 0, 0))]
    lines[1] = lines[1].model_copy(update={"answer": "I do not know"})
    lines[3] = lines[3].model_copy(update={"answer": "MASK."})
    runs = [*made[:2], run("rag-masked", lines, dataset="nq")]
    (grid,) = (one for one in tables(entries_of(runs)) if one.name == "kbm-figure9")
    assert shown(grid) == [
        ["right", "2", "1.000", ".500", ".500", "50.0 %", "0.0 %"],
        ["wrong", "2", ".000", ".500", ".000", "0.0 %", "50.0 %"],
        ["all", "4", ".500", ".500", ".250", "25.0 %", "25.0 %"],
    ]
