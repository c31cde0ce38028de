import pytest

from keqa.data import BENCHMARKS, Example
from keqa.errors import InputError

HEADER = "id,split,question,false_premise,answer_0,answer_1\n"
ROWS = (
    '1,TEST,"Who directs, now?",FALSE,Ann,Ann Lee\n'
    '2,DEV,Is it over?,FALSE,No,"No, it is not."\n'
    "3,TEST,Has a vaccine done it?,TRUE,No vaccine has done it.,No\n"
)


@pytest.fixture
def table(write_json):
    return write_json("freshqa.csv", HEADER + ROWS)


def test_the_table(table):
    assert BENCHMARKS["freshqa"].load(table).examples == [
        Example("1", "Who directs, now?", ("Ann", "Ann Lee")),
        Example("3", "Has a vaccine done it?", ("No vaccine has done it.", "No")),
    ]
    assert BENCHMARKS["freshqa"].load(table, split="dev").examples == [
        Example("2", "Is it over?", ("No", "No, it is not."), scored_as="yes/no"),
    ]


@pytest.mark.parametrize(
    ("split", "ids"), [(None, ["1", "3"]), ("test", ["1", "3"]), ("dev", ["2"]), ("validation", ["2"])]
)
def test_a_split_of_it(table, split, ids):
    assert BENCHMARKS["freshqa"].load(table, split=split).ids == ids
    assert BENCHMARKS["freshqa"].load(table.parent, split=split).ids == ids


def test_notes_before_the_header_are_passed_over(write_json):
    path = write_json("freshqa.csv", "WARNING: the answers change,,,,,\nlast checked,today,,,,\n" + HEADER + ROWS)
    assert BENCHMARKS["freshqa"].load(path).ids == ["1", "3"]


def test_what_is_wrong_is_named_by_line(write_json):
    path = write_json("freshqa.csv", HEADER + ROWS + "4,TEST,When?,FALSE,,\n5,TEST,When?\n,TEST,When?,FALSE,x,\n")
    assert [(problem.line, problem.message) for problem in BENCHMARKS["freshqa"].load(path).problems] == [
        (5, "there is no answer"),
        (6, "there are 3 cells, 6 are expected"),
        (7, "the id is empty"),
    ]


def test_an_unknown_split(table):
    with pytest.raises(InputError, match="FreshQA has the splits test, dev, not 'train'"):
        BENCHMARKS["freshqa"].load(table, split="train")


def test_how_fast_an_answer_changes_and_how_many_hops_lead_to_it_are_its_kinds(write_json):
    header = "id,split,question,num_hops,fact_type,answer_0\n"
    rows = "1,TEST,Who?,one-hop,fast-changing,Ann\n2,TEST,Where?,multi-hop,,Oslo\n3,TEST,When?,,,1999\n"
    found = BENCHMARKS["freshqa"].load(write_json("freshqa.csv", header + rows)).examples
    assert [example.kind for example in found] == ["fast-changing; one-hop", "multi-hop", ""]
