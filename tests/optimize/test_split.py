"""Which questions are learned from, and which are chosen by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from keqa.data.example import Example
from keqa.errors import InputError
from keqa.optimize.split import split

QUESTIONS = [Example(f"q{n}", f"Who is number {n}?", ("Dan",)) for n in range(404)]
WRONG = [{"question": "", "answer": "x"}] * 7


def test_a_quarter_is_held_out_in_order_and_at_most_a_hundred():
    for count, held in ((8, 2), (11, 2), (12, 3), (404, 100)):
        parts = split(QUESTIONS[:count], None, 0)
        assert len(parts.val) == held
        assert sorted([*parts.train, *parts.val], key=QUESTIONS.index) == QUESTIONS[:count]
        for part in (parts.train, parts.val):
            assert part == sorted(part, key=QUESTIONS.index)
        assert parts.problems == []


def test_the_seed_decides_what_is_held_out():
    assert split(QUESTIONS[:40], None, 1) == split(QUESTIONS[:40], None, 1)
    assert split(QUESTIONS[:40], None, 1).val != split(QUESTIONS[:40], None, 2).val


def test_too_few_choose_as_well():
    parts = split([*QUESTIONS[:7], WRONG[0]], None, 0)
    assert parts.train == parts.val == QUESTIONS[:7]
    assert parts.problems == [
        "train: example 8: the question is empty",
        "7 training questions are too few to hold some out: they choose as well",
    ]
    assert split([*QUESTIONS[:8], WRONG[0]], None, 0).problems == ["train: example 9: the question is empty"]


def test_a_question_that_is_learned_from_does_not_choose():
    again = Example("other", "WHO is number 1?", ("Ann",))
    chosen = Example("v", "Who is number 1?", ("A",), "choice", ("Ann", "Dan"))
    parts = split([*QUESTIONS[:3], WRONG[0]], [again, chosen, WRONG[0]], 0)
    # With options it is another question.
    assert (parts.train, parts.val) == (QUESTIONS[:3], [chosen])
    assert parts.problems == [
        "train: example 4: the question is empty",
        "validation: example 3: the question is empty",
        "validation question 'WHO is number 1?' is a training question as well: left out of the validation questions",
    ]
    with pytest.raises(InputError, match=r"^every validation question is a training question as well$"):
        split(QUESTIONS[:3], [again], 0)


def test_what_holds_nothing_of_use_is_refused_with_the_first_problems():
    with pytest.raises(InputError) as refused:
        split(WRONG, None, 0)
    lines = str(refused.value).split("\n")
    assert lines == ["no train question can be used", *(f"  example {n}: the question is empty" for n in range(1, 6))]
    with pytest.raises(InputError, match=r"^no validation question can be used"):
        split(QUESTIONS, [], 0)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_file_is_named_without_its_folder(tmp_path, kind):
    path = tmp_path / "own.jsonl"
    rows = [{"id": "a", "question": "Who?", "answer": "Dan"}, {"question": "", "answer": "Dan"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    parts = split(kind(path), None, 0)
    assert [(one.id, one.question, one.answers) for one in parts.train] == [("a", "Who?", ("Dan",))]
    assert parts.problems[0] == "train: own.jsonl, line 2: the question is empty"
