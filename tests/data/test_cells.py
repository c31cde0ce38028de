"""A cell of a question file is a list only where all of it is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.cells import fractions_of_wholes, listed, values_of


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("['Elland', 'the Elland']", ["Elland", "the Elland"]),
        (' ["Isburg", "Isb\\u00e9rg"] ', ["Isburg", "Isbérg"]),
        ("['it\\'s', \"a 'b'\", 'x\\n']", ["it's", "a 'b'", "x\n"]),
        ("['the Elland'\n 'Elland']", ["the Elland", "Elland"]),
        ("['a, b']", ["a, b"]),
        ("[1871, 2.5, -3]", [1871, 2.5, -3]),
        ("['a', None, True]", ["a", None, True]),
        ("[]", []),
    ],
)
def test_a_list_as_json_python_and_numpy_write_it(cell, found):
    assert listed(cell) == found


@pytest.mark.parametrize(
    "cell",
    [
        "Elland",
        "[sic] it is",
        "[a, b]",
        "['a'",
        "['a'] or ['b']",
        "[['a'], ['b']]",
        '[["a"]]',
        '[{"a": 1}]',
        "['a' + 'b']",
        "[__import__('os')]",
        "[007]",
        "['\\d']",
        "('a', 'b')",
        "{'a'}",
        "[" * 100_000 + "]" * 100_000,
        "['\\Uffffffff']",
        "[" + "9" * 5000 + "]",
    ],
)
def test_whatever_else_stays_as_it_is(cell):
    assert listed(cell) is None
    assert values_of("answer", cell) == cell


@given(st.lists(st.text() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)))
def test_every_list_that_python_writes_is_read(values):
    assert listed(repr(values)) == values


@pytest.mark.parametrize(
    "cell", ["[" + " " * 300_000 + "x]", "['a'" + " " * 300_000 + "x]", "[" + "'a' " * 100_000 + "x]"]
)
def test_a_long_cell_that_is_almost_a_list_is_looked_at_once(cell):
    assert listed(cell) is None


def test_only_columns_with_lists_are_split():
    assert values_of("answers", "Ann|Anne") == ["Ann", "Anne"]
    assert values_of("answer", "a|b") == "a|b"
    assert values_of("question", "['Who?']") == "['Who?']"


def test_a_column_is_of_whole_numbers_where_one_is_missing():
    header = ["question", "answer", "answers"]
    assert fractions_of_wholes(header, [["a", "1.0", ""], ["b", "", ""]]) == {"answer"}
    assert fractions_of_wholes(header, [["a", "1.0", ""], ["b", "2.0", ""]]) == set()
    assert fractions_of_wholes(header, [["a", "1.0", ""], ["b", "", ""], ["c", "1.5", ""]]) == set()
    assert fractions_of_wholes(header, []) == set()
