import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data import Example
from keqa.data.loading import collect, read_records, sampled
from keqa.data.records import LeftOut
from keqa.data.rows import Row
from keqa.errors import InputError

IDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), unique=True, max_size=20)


def examples(ids):
    return [Example(one, f"Who is {one}?", ("Ann",)) for one in ids]


def convert(record):
    if "answer" not in record:
        return LeftOut("unanswerable")
    if not record["answer"]:
        raise InputError("the answer is empty")
    return Example(record["id"], record["question"], (record["answer"],))


def load(*values, **kwargs):
    rows = [Row(None, number, value, "example") for number, value in enumerate(values, start=1)]
    return collect(read_records(rows, convert), source="it", expected="an object", **kwargs)


ANN = {"id": "a", "question": "Who?", "answer": "Ann"}


def test_each_record_is_an_example_a_problem_or_left_out():
    loaded = load(
        ANN,
        {"id": "b", "question": "Who?"},
        {**ANN, "answer": ""},
        "broken",
        InputError("malformed"),
        {**ANN, "question": "Where?"},
        ANN,
        {**ANN, "id": "c"},
    )
    assert loaded.ids == ["a", "c"]
    assert loaded.left_out == {"unanswerable": 1}
    assert [str(problem) for problem in loaded.problems] == [
        "example 3: the answer is empty",
        "example 4: an object is expected, not str",
        "example 5: malformed",
        "example 6: its id 'a' is that of example 1",
        "example 7: the question of example 1 again",
    ]


def test_nothing_usable_says_what_was_expected():
    with pytest.raises(InputError, match=r"^it holds no question that can be used; expected: an object\n  example 1: "):
        load("broken")
    with pytest.raises(InputError, match=r"^it holds no question that can be used; expected: an object$"):
        load()
    with pytest.raises(InputError, match=r"^it holds no question to ask: 2 unanswerable$"):
        load({}, {})


def test_a_sample_is_the_same_everywhere_and_always():
    drawn = sampled(examples("abcdefghij"), 4, 0)
    assert [example.id for example in drawn] == ["f", "j", "d", "a"]


@given(IDS, st.integers(1, 25), st.integers())
def test_a_larger_sample_begins_with_the_smaller(ids, count, seed):
    assert sampled(examples(ids), count + 1, seed)[:count] == sampled(examples(ids), count, seed)


def test_another_seed_draws_others():
    ids = [str(number) for number in range(100)]
    assert len({tuple(example.id for example in sampled(examples(ids), 10, seed)) for seed in range(20)}) == 20
