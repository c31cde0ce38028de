import pytest

from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.rows import entries_of
from keqa.metrics.significance import mcnemar, paired_t_test

KEQA = (1, 1, 1, 1, 1, 1, 1, 0)
RAG = (1, 0, 0, 0, 0, 0, 1, 0)
BOOK = (0, 0, 1, 0, 0, 0, 0, 0)


def by_method(grid):
    """The rows as mappings from columns to what is shown."""
    names = [column.full for column in grid.columns]
    return {row.cells[0].text: dict(zip(names, row.cells, strict=True)) for row in grid.rows}


def test_scores_costs_and_marks_of_a_table_worked_out_by_hand(scored):
    grid = overall(entries_of([scored("keqa", KEQA), scored("rag", RAG), scored("closed-book", BOOK)]))
    rows = by_method(grid)
    assert list(rows) == ["Always retrieve", "Closed book", "KEQA"]
    assert {name: cell.text for name, cell in rows["Always retrieve"].items()} == {
        "method": "Always retrieve",
        "F1": ".250",
        "EM": ".250",
        "retrievals": "1.00",
        "LM calls": "2.0",
        "sent": "2.0",
        "not parsed": "0.0 %",
        "failed": "0",
        "KEQA's lead in F1 mean": "+.625",
        "KEQA's lead in F1 low": "+.250",
        "KEQA's lead in F1 high": "+.875",
        "p t-test": ".011",
        "p McNemar": ".062",
    }
    assert paired_t_test(KEQA, RAG) == pytest.approx(0.0112, abs=1e-4)
    assert mcnemar(KEQA, RAG) == 0.0625
    keqa, rag, book = rows["KEQA"]["F1"], rows["Always retrieve"]["F1"], rows["Closed book"]["F1"]
    assert (keqa.text, keqa.bold, keqa.underline, keqa.star) == (".875", True, False, True)
    assert (rag.bold, rag.underline, rag.star) == (False, True, False)
    assert (book.bold, book.underline, book.star) == (False, False, False)
    assert rows["KEQA"]["p t-test"].value is None
    assert [row.ruled for row in grid.rows] == [False, False, True]
    assert grid.notes[-1] == "KEQA is the best in every column."


def test_more_than_a_tenth_of_unreadable_outputs_is_not_comparable(run, line, scored):
    good = scored("keqa", (0,) * 10)
    # 20 outputs, of which 2 and 3 could not be read: exactly a tenth, and more.
    ten = run("rag", [line(n, 1.0, unreadable=int(n < 2)) for n in range(10)])
    more = run("react", [line(n, 1.0, unreadable=int(n < 3)) for n in range(10)])
    rows = by_method(grid := overall(entries_of([good, ten, more])))
    assert rows["Always retrieve"]["EM"].text == "1.000"
    assert rows["Always retrieve"]["not parsed"].text == "10.0 %"
    assert rows["ReAct"]["remarks"].text == "not comparable"
    assert [rows["ReAct"][name].text for name in ("F1", "EM", "p t-test")] == ["-", "-", ""]
    assert rows["ReAct"]["F1"].value is None
    assert rows["ReAct"]["not parsed"].text == "15.0 %"
    assert any(note.startswith("Not comparable: more than 10 % of the outputs") for note in grid.notes)
    assert "ReAct" not in grid.notes[-1]


def test_where_keqa_is_not_the_best_the_table_says_so(scored):
    grid = overall(entries_of([scored("keqa", RAG), scored("rag", KEQA), scored("keqa-no-qke", BOOK)]))
    assert grid.notes[-1] == (
        "KEQA is not the best in F1 (Always retrieve .875, KEQA .250, p = .011); "
        "EM (Always retrieve .875, KEQA .250, p = .011)."
    )
    rows = by_method(grid)
    assert not rows["KEQA"]["F1"].star
    assert rows["Always retrieve"]["F1"].bold
    assert rows["Always retrieve"]["KEQA's lead in F1 mean"].text == "-.625"


def test_where_others_are_as_good_nobody_is_ahead_and_they_are_named(scored):
    all_alike = [scored(method, (1, 0)) for method in ("keqa", "rag", "closed-book")]
    message = "Nobody is ahead of KEQA in any column; as good are, in F1 ({0}); EM ({0})."
    assert overall(entries_of(all_alike)).notes[-1] == message.format("Always retrieve, Closed book")
    some = [scored("keqa", (1, 0)), scored("rag", (1, 0)), scored("closed-book", (0, 0))]
    assert overall(entries_of(some)).notes[-1] == message.format("Always retrieve")


def test_an_unfinished_run_is_shown_and_not_ranked(scored, run, line):
    part = run("rag", [line(0, 1.0)], ids=["q0", "q1"])
    grid = overall(entries_of([scored("keqa", (0, 0)), part]))
    rows = by_method(grid)
    assert rows["Always retrieve"]["remarks"].text == "1 of 2 asked"
    assert (rows["Always retrieve"]["F1"].text, rows["Always retrieve"]["F1"].bold) == ("1.000", False)
    assert rows["Always retrieve"]["p t-test"].value is None
    assert grid.notes[-1].startswith("No other row is comparable and was asked all questions")


def test_without_keqa_nothing_is_compared(scored):
    grid = overall(entries_of([scored("rag", (1, 0))]))
    assert grid.notes[-1] == "KEQA was not run: there is nothing to compare with."


def notes_on(scored, **shown):
    """What Table 1 says of demonstrations, by the number that each method is shown."""
    runs = [scored(name.replace("_", "-"), (1, 0), demonstrations=count) for name, count in shown.items()]
    return [note for note in overall(entries_of(runs)).notes if "emonstrations" in note]


def test_which_rows_have_demonstrations_and_which_have_none_is_reported(scored):
    some, none = {"answer": 4}, {"answer": 0}
    assert notes_on(scored, rag=none, closed_book=some, keqa={"decomposing.decompose": 0, "picking.judge": 8}) == [
        "There are demonstrations in the prompts of: Closed book, KEQA. There are none in those of: Always retrieve. "
        "A part of a lead over these may be due to them."
    ]
    assert notes_on(scored, rag=some, closed_book=some, keqa=some) == []
    assert notes_on(scored, rag=none, keqa=none) == []


def test_rows_are_called_by_title_and_arguments(scored):
    runs = [scored("rag", (1,), label="rag-top_k=5"), scored("keqa", (1,), label="mine"), scored("other", (1,))]
    assert [entry.title for entry in entries_of(runs)] == ["Always retrieve (top_k=5)", "other", "mine"]


@pytest.mark.parametrize(
    ("label", "settings", "title"),
    [
        ("rowen", {"language": "Chinese", "cross_model": False}, "Rowen"),
        ("rowen", {"language": None, "cross_model": False}, "Rowen (one language)"),
        ("rowen-rephrasings=3", {"language": None, "cross_model": False}, "Rowen (one language, rephrasings=3)"),
        ("rowen-cross_model=True", {"language": None, "cross_model": True}, "Rowen (cross_model=True)"),
        ("mine", {"language": None, "cross_model": False}, "mine"),
    ],
)
def test_a_form_with_less_than_the_paper_has_is_reported(scored, label, settings, title):
    (entry,) = entries_of([scored("rowen", (1,), label=label, **settings)])
    assert entry.title == title


def test_what_was_compiled_and_stayed_as_it_was_is_named(scored):
    def compiled(run, prompts):
        header = run.header.model_copy(update={"compiled": run.header.method})
        settings = header.configuration.model_copy(update={"prompts": prompts})
        return type(run)(header.model_copy(update={"configuration": settings}), run.lines)

    runs = [
        scored("rag", (1, 0)),
        compiled(scored("rag", (1, 0), label="rag-compiled"), "p"),
        scored("react", (1, 0)),
        compiled(scored("react", (1, 1), label="react-compiled"), "other"),
        compiled(scored("keqa", (1, 1)), "p"),
    ]
    said = [note for note in overall(entries_of(runs)).notes if note.startswith("Compiled")]
    assert said == [
        "Compiled, and as they were, for nothing that they learned made them better: Always retrieve (compiled)."
    ]
