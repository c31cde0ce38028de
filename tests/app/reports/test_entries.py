import pytest

from keqa.errors import InputError
from keqa.reports.entries import entries_of, groups_of
from keqa.reports.leads import chance


def test_one_id_with_two_questions_is_refused_and_both_files_named(run, line):
    other = line(0, 1.0).model_copy(update={"question": "Another question?"})
    with pytest.raises(
        InputError, match=r"keqa\.jsonl \(keqa\) and mine\.jsonl \(rag\) hold different questions"
    ) as told:
        entries_of([run("keqa", [line(0, 1.0)]), run("rag", [other], label="mine")])
    assert "'Question 0?' and 'Another question?'" in str(told.value)
    assert "under the id 'q0' of mine" in str(told.value)


def test_runs_before_and_after_a_gold_answer_was_edited_are_not_paired(run, line):
    edited = line(1, 1.0, answers=("another",))
    with pytest.raises(
        InputError, match=r"rag\.jsonl \(rag\) hold different gold answers, \['gold'\] and \['another'\]"
    ):
        entries_of([run("keqa", [line(0, 1.0), line(1, 1.0)]), run("rag", [line(0, 1.0), edited])])


def test_questions_of_two_splits_are_not_paired_though_their_ids_are_the_same(run, line):
    first = [line(number, 1.0) for number in range(3)]
    second = [one.model_copy(update={"question": "Another question?"}) for one in first]
    entries = entries_of([run("rag", first, split="dev"), run("keqa", second, split="test")])
    groups = groups_of(entries)
    assert [(group.name, len(group.questions)) for group in groups] == [("mine dev", 3), ("mine test", 3)]
    assert [len(entries[1].within(group)) for group in groups] == [0, 3]
    assert chance(entries[0], entries[1], groups[0], "em") is None


def test_one_label_on_two_splits_makes_one_row(run, line):
    runs = [run("keqa", [line(0, 1.0)], split="dev"), run("keqa", [line(0, 0.0)], split="test")]
    (entry,) = entries_of(runs)
    assert [one.scores["em"] for one in entry.lines.values()] == [1.0, 0.0]
    with pytest.raises(InputError, match="two runs 'keqa' on mine dev: give one"):
        entries_of([*runs, runs[0]])
