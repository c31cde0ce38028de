"""From rows to examples by one loop, and the one way in."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.benchmarks import load
from keqa.data.example import Example
from keqa.data.loading import sampled
from keqa.errors import InputError

IDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), unique=True, max_size=20)
NAMES = [{"question": f"Who is {name}?", "answer": [name]} for name in ("Ann", "Bo", "Cy", "Di")]


def examples(ids):
    return [Example(one, f"Who is {one}?", ("Ann",)) for one in ids]


def test_a_sample_is_the_same_everywhere_and_always():
    assert [example.id for example in sampled(examples("abcdefghij"), 4, 0)] == ["f", "j", "d", "a"]
    assert sampled(examples("abcdefghij"), 4, 1) != sampled(examples("abcdefghij"), 4, 0)


@given(IDS, st.integers(1, 25), st.integers())
def test_a_larger_sample_begins_with_the_smaller(ids, count, seed):
    assert sampled(examples(ids), count + 1, seed)[:count] == sampled(examples(ids), count, seed)


def test_a_benchmark_by_name_and_path_and_a_sample_of_it_whatever_its_order(write_json):
    path, turned = write_json("nq.jsonl", NAMES), write_json("turned.jsonl", NAMES[::-1])
    assert [example.answers for example in load(f"nq:{path}").examples] == [("Ann",), ("Bo",), ("Cy",), ("Di",)]
    assert load(f" NQ:{path}") == load(f"nq:{path}")
    drawn = load(f"nq:{path}", sample=2, seed=3).ids
    assert len(drawn) == 2
    assert load(f"nq:{turned}", sample=2, seed=3).ids == load(path, sample=2, seed=3).ids == drawn
    assert load(f"nq:{path}", sample=9).ids == load(f"nq:{path}", sample=4).ids


@pytest.mark.parametrize("kind", [str, Path])
def test_the_users_own_file(write_json, kind):
    path = write_json("own.jsonl", '{"id": "a", "question": "Who?", "answer": "Ann"}\n{"question": "Who?"}\n')
    loaded = load(kind(path))
    assert loaded.examples == [Example("a", "Who?", ("Ann",))]
    assert [str(problem) for problem in loaded.problems] == [f"{path}, line 2: there is no answer, found question"]
    with pytest.raises(InputError, match="is one file, which is one split: leave the split 'dev' out"):
        load(kind(path), split="dev")


@pytest.mark.parametrize("name", ["hotpot", "dev.txt", "hotpot:dev.json", ""])
def test_what_is_neither_a_benchmark_nor_a_file(name):
    with pytest.raises(
        InputError, match=r"is neither a benchmark nor a \.jsonl, \.json or \.csv of your own"
    ) as caught:
        load(name)
    assert "hotpotqa, hotpotqa-fullwiki, 2wikimultihopqa" in str(caught.value)
    for one in ("own.jsonl", "nq"):
        with pytest.raises(InputError, match="sample must be at least 1, not 0"):
            load(one, sample=0)
