from pathlib import Path

import pytest

from keqa.data import Example, load
from keqa.errors import InputError

ROWS = [{"question": f"Who is {name}?", "answer": [name]} for name in ("Ann", "Bo", "Cy", "Di")]


def test_a_benchmark_by_name_and_path(write_json):
    path = write_json("nq.jsonl", ROWS)
    assert [example.answers for example in load(f"nq:{path}").examples] == [("Ann",), ("Bo",), ("Cy",), ("Di",)]
    assert load(f" NQ:{path}") == load(f"nq:{path}")


def test_a_seeded_sample_is_independent_of_the_order(write_json):
    path, turned = write_json("nq.jsonl", ROWS), write_json("turned.jsonl", ROWS[::-1])
    drawn = load(f"nq:{path}", sample=2, seed=3)
    assert len(drawn.examples) == 2
    assert load(f"nq:{turned}", sample=2, seed=3).ids == drawn.ids
    assert load(path, sample=2, seed=3).ids == drawn.ids
    assert load(f"nq:{path}", sample=9).ids == load(f"nq:{path}", sample=4).ids


@pytest.mark.parametrize("kind", [str, Path])
def test_the_users_own_file(write_json, kind):
    path = write_json("own.jsonl", '{"id": "a", "question": "Who?", "answer": "Ann"}\n{"question": "Who?"}\n')
    loaded = load(kind(path))
    assert loaded.examples == [Example("a", "Who?", ("Ann",))]
    assert [str(problem) for problem in loaded.problems] == [f"{path}, line 2: there is no answer, found question"]


@pytest.mark.parametrize("name", ["hotpot", "dev.json", "hotpot:dev.json", ""])
def test_what_is_neither_a_benchmark_nor_a_file(name):
    with pytest.raises(InputError, match=r"is neither a benchmark nor a \.jsonl or \.csv file of your own") as caught:
        load(name)
    assert "hotpotqa, hotpotqa-fullwiki, 2wikimultihopqa" in str(caught.value)


def test_one_file_is_one_split(write_json):
    with pytest.raises(InputError, match="is one file, which is one split: leave the split 'dev' out"):
        load(write_json("own.jsonl", ROWS), split="dev")


@pytest.mark.parametrize("name", ["own.jsonl", "nq"])
def test_a_sample_of_nothing(name):
    with pytest.raises(InputError, match="sample must be at least 1, not 0"):
        load(name, sample=0)
