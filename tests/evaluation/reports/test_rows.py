import pytest
from fixtures.run_files import shown

from keqa.errors import InputError
from keqa.evaluation.reports.overall import overall
from keqa.evaluation.reports.paper import by_facet
from keqa.evaluation.reports.rows import entries_of, groups_of, main_rows, sweep


@pytest.mark.parametrize(
    ("edited", "told"),
    [
        (
            {"question": "Another question?"},
            r"keqa\.jsonl \(keqa\) and mine\.jsonl \(rag\) hold different questions, 'Question 0\?' and 'Another "
            r"question\?', under the id 'q0' of mine",
        ),
        ({"answers": ["another"]}, "different gold answers"),
        ({"choices": ["one", "two"]}, "different choices"),
    ],
)
def test_one_id_with_two_questions_is_refused_and_both_files_named(run, line, edited, told):
    other = line(0, 1.0).model_copy(update=edited)
    with pytest.raises(InputError, match=told):
        entries_of([run("keqa", [line(0, 1.0)]), run("rag", [other], label="mine")])


def test_questions_of_two_splits_are_not_paired_though_their_ids_are_the_same(run, line):
    first = [line(number, 1.0) for number in range(3)]
    second = [one.model_copy(update={"question": "Another question?"}) for one in first]
    runs = [run("rag", first, split="dev"), run("keqa", second, split="test")]
    entries = entries_of(runs)
    groups = groups_of(entries)
    assert [(group.name, len(group.questions)) for group in groups] == [("mine dev", 3), ("mine test", 3)]
    assert [len(entries[1].within(group)) for group in groups] == [0, 3]
    # One label on two splits makes one row.
    (entry,) = entries_of([runs[0], run("rag", [line(0, 0.0)], split="test")])
    assert [one.number("em") for one in entry.lines.values()] == [1.0, 1.0, 1.0, 0.0]
    with pytest.raises(InputError, match="two runs 'rag' on mine dev: give one"):
        entries_of([*runs, runs[0]])


def test_before_and_after_compiling_are_rows_of_one_table(scored):
    after = {"compiled": "keqa", "prompts": "learned"}
    first, second = ({**after, "command": f"keqa compare keqa --program {name}"} for name in ("mine/a", "'mine/b c'"))
    entries = entries_of([scored("keqa", (1, 0)), scored("keqa", (1, 1), **first), scored("keqa", (0, 1), **second)])
    assert [entry.title for entry in entries] == ["KEQA", "KEQA (program a)", "KEQA (program b c)"]
    assert main_rows(entries) == entries
    assert [entry.title for entry in entries_of([scored("keqa", (1, 1), **first), scored("keqa", (1, 0))])] == [
        "KEQA",
        "KEQA (not compiled)",
    ]
    with pytest.raises(InputError, match="name one of them otherwise, by the label in its first line"):
        entries_of([scored("keqa", (1, 1), **first), scored("keqa", (1, 0), **first)])


def test_runs_of_one_label_with_two_language_models_are_two_rows(run, scored):
    small = {"model": "keqa/small", "index": "TantivyRetriever"}
    large = {"model": "keqa/tiny", "index": "TantivyRetriever"}
    runs = [scored("keqa", right, **means) for right, means in [((1, 1), large), ((1, 0), small)]]
    runs.insert(1, scored("rag", (0, 1), **large))
    runs.append(scored("rag", (0, 0), **small))
    entries = entries_of(runs)
    assert [entry.title for entry in entries] == [
        "Always retrieve",
        "Always retrieve (keqa/small)",
        "KEQA",
        "KEQA (keqa/small)",
    ]
    # The first folder's are the rows of Table 1; both are in Table 4.
    assert [entry.title for entry in main_rows(entries)] == ["Always retrieve", "KEQA"]
    table = by_facet("table4", "lm", entries)
    assert shown(table) == [
        ["KEQA w keqa/tiny", "1.000"],
        ["RAG w keqa/tiny", ".500"],
        ["KEQA w keqa/small", ".500"],
        ["RAG w keqa/small", ".000"],
    ]
    assert by_facet("table3", "retriever", entries) is None


def test_a_label_on_two_data_sets_is_one_row_though_their_engines_differ(run, line):
    engines = {"nq": "ElasticsearchRetriever", "hotpotqa": "TantivyRetriever"}
    runs = [run("rag", [line(0, 1.0)], dataset=name, index=kind) for name, kind in engines.items()]
    assert [len(entry.expected) for entry in entries_of(runs)] == [2]


def test_a_row_that_only_says_what_is_usual_anyway_is_left_out(scored):
    runs = [
        scored("keqa", (1, 0), threshold="4/5", top_k=5),
        scored("keqa", (1, 0), label="keqa-top_k=5", threshold="4/5", top_k=5),
        scored("keqa", (1, 1), label="keqa-tries=9", threshold="4/5", top_k=5, tries=9),
        scored("rag", (1, 1), label="rag-again", top_k=5),
    ]
    assert [entry.label for entry in main_rows(entries_of(runs))] == ["rag-again", "keqa", "keqa-tries=9"]


def test_a_second_run_of_the_same_and_a_run_on_other_questions_are_rows(run, line, scored):
    runs = [scored("keqa", (1, 0), label=label) for label in ("keqa", "keqa-seed2", "again")]
    runs.append(run("keqa", [line(0, 1.0)], label="keqa-threshold=4/5", split="dev", threshold="4/5"))
    assert len(main_rows(entries_of(runs))) == 4


def test_a_program_that_was_evaluated_in_python_is_the_method_that_it_is(scored):
    runs = [scored(name, (1, 0), label=label, reason=reason) for name, label, reason in IN_PYTHON]
    found = [(entry.method, entry.title, entry.kind) for entry in entries_of(runs)]
    assert found == [
        ("closed-book", "Closed book", "baseline"),
        ("rag-cot", "Always retrieve, CoT", "baseline"),
        ("rag", "mine", "baseline"),
    ]


def test_no_two_rows_are_called_the_same(scored):
    one_label = [scored(method, (1, 0), label="mine") for method in ("rag", "cot")]
    assert [entry.title for entry in entries_of(one_label)] == ["mine", "mine (cot)"]
    without = [scored("keqa", (1, 0), **PICKS), scored("keqa-no-reference", (1, 1), **PICKS)]
    assert [entry.title for entry in entries_of(without)] == ["KEQA w/o R", "KEQA w/o R (keqa-no-reference)"]


@pytest.mark.parametrize(
    ("kinds", "groups"),
    [
        (["fast; one-hop", "slow; multi-hop", "fast; multi-hop"], {"fast": 2, "slow": 1, "one-hop": 1, "multi-hop": 2}),
        # Those of no kind are of one group with those called other.
        (["", "a", "other"], {"other": 2, "a": 1}),
    ],
)
def test_a_question_of_several_kinds_is_in_the_group_of_each(run, line, kinds, groups):
    entries = entries_of([run("keqa", [line(number, 1.0, kind=kind) for number, kind in enumerate(kinds)])])
    assert {group.name: len(group.questions) for group in groups_of(entries)} == groups


IN_PYTHON = [
    ("closed book", "closed-book", False),
    ("always retrieve", "rag-cot", True),
    ("always retrieve", "mine", False),
]
PICKS = {"pick": True, "index": "TantivyRetriever"}
ALONE = {"language": None, "cross_model": False}
REFERENCE = {"variant": "similar", "k": 8}


@pytest.mark.parametrize(
    ("method", "settings", "title"),
    [
        ("keqa", {**PICKS, "reference": REFERENCE}, "KEQA"),
        ("keqa", PICKS, "KEQA w/o R"),
        ("keqa", {**PICKS, "reference": {**REFERENCE, "variant": "none"}}, "KEQA w/o R"),
        ("keqa-no-reference", {**PICKS, "reference": {**REFERENCE, "variant": "none"}}, "KEQA w/o R"),
        ("keqa-no-qke", PICKS, "KEQA w/o QKE, w/o R"),
        ("keqa-no-qke", {**PICKS, "reference": REFERENCE}, "KEQA w/o QKE"),
        ("keqa-key-sentences", PICKS, "KEQA w SE, w/o R"),
        ("keqa-no-ukp", {**PICKS, "pick": False}, "KEQA w/o UKP"),
        ("keqa-full", {**PICKS, "pick": False}, "KEQA Full"),
        ("rag", {"index": "TantivyRetriever"}, "Always retrieve"),
        # A form with less than the paper has says so.
        ("rowen", {"language": "Chinese", "cross_model": False}, "Rowen"),
        ("rowen", ALONE, "Rowen (one language)"),
        ("rowen", {**ALONE, "label": "rowen-rephrasings=3"}, "Rowen (one language, rephrasings=3)"),
        (
            "rowen",
            {"language": None, "cross_model": True, "label": "rowen-cross_model=True"},
            "Rowen (cross_model=True)",
        ),
        ("rowen", {**ALONE, "label": "mine"}, "mine"),
    ],
)
def test_a_row_is_named_for_what_ran(scored, method, settings, title):
    [entry] = entries_of([scored(method, (1, 0), **settings)])
    assert entry.title == title


def test_table_1_says_whose_lead_it_shows(scored):
    entries = entries_of([scored("rag", (1, 0)), scored("keqa", (1, 1), **PICKS)])
    grid = overall(entries)
    assert "KEQA w/o R's lead in F1 mean" in [column.full for column in grid.columns]
    assert grid.notes[-1] == "KEQA w/o R is the best in every column."
    assert not any("KEQA " in note.replace("KEQA w/o R", "") for note in grid.notes)


def test_a_curve_is_of_rows_that_show_the_same(scored):
    runs = [scored("keqa", (1, 0), label=f"keqa-{n}", top_k=n) for n in (7, 3)]
    runs.append(scored("keqa", (1, 0), label="keqa-5", top_k=5, prompts="learned"))
    entries = entries_of(runs)
    assert [entry.label for entry in sweep(entries, "keqa", "top_k")] == ["keqa-3", "keqa-7"]
    assert sweep(entries[:1], "keqa", "top_k") == sweep(entries, "rag", "top_k") == []
