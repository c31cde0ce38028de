import fusion
import pytest
import recall

from keqa.retrievers import Hit, Passage

TWO = recall.Benchmark("Two", "two/corpus.json", (), "title")


def found(titles):
    return [Hit(Passage(title, title, ""), 1.0) for title in titles]


def test_each_half_is_distinguished_and_a_small_constant_trusts_the_first():
    case = recall.Case(TWO, [], ["even?", "odd?"], [{"A"}, {"z"}], 0)
    sure, faint = found("Abcdefgh"), found("stuvwhgfedcb")
    lists = {"bm25": [sure, found("z")], "dense": [faint, found("q")]}
    recalls = dict(fusion.rows(case, lists))
    assert recalls["bm25"] == [1.0, 1.0]
    assert recalls["dense"] == [0.0, 0.0]
    # What stands first in one list alone, against six that stand low in both.
    assert recalls["0"] == [1.0, 1.0]
    assert recalls["60"] == [0.0, 1.0]
    assert set(recalls) == {"bm25", "dense", *map(str, fusion.CONSTANTS)}


@pytest.mark.parametrize("half", [0, 1])
def test_a_half_has_every_second_question(half):
    case = recall.Case(TWO, [], ["0", "1", "2"], [{"A"}, {"B"}, {"C"}], 0)
    lists = {"bm25": [found("A"), found("x"), found("x")], "dense": [found("x"), found("B"), found("x")]}
    assert dict(fusion.rows(case, lists))["bm25"][half] == [0.5, 0.0][half]
