"""A table in memory is refused with how to give its rows; its rows are questions, with nothing where it has NaN."""

from __future__ import annotations

from typing import Any

import pytest

from keqa.data import as_examples, sort_examples
from keqa.data.question import Question
from keqa.data.tables import refuse_table
from keqa.errors import InputError


# Stand-ins with the interface of classes whose packages need not be installed.
class DataFrame:
    """As ``pandas.DataFrame``."""

    columns = ("question", "answer")

    def __iter__(self) -> Any:
        return iter(self.columns)

    def to_dict(self, orient: str = "dict") -> Any:
        raise AssertionError("not this one")


class PolarsFrame(DataFrame):
    """As ``polars.DataFrame``."""

    def to_dicts(self) -> Any:
        raise AssertionError("not this one")


class Table:
    """As ``pyarrow.Table``."""

    columns = ()

    def to_pylist(self) -> Any:
        raise AssertionError("not this one")


@pytest.mark.parametrize(
    ("table", "rows"),
    [(DataFrame(), 'df.to_dict("records")'), (PolarsFrame(), "df.to_dicts()"), (Table(), "df.to_pylist()")],
)
def test_a_table_is_refused_with_how_to_give_its_rows(table, rows):
    for take in (as_examples, sort_examples):
        with pytest.raises(InputError) as refused:
            take(table)
        kind = type(table).__name__
        assert str(refused.value) == f"keqa takes a list of questions, not a {kind}: give its rows, {rows}"


@pytest.mark.parametrize("items", [[], (), "questions.csv", iter([]), {"columns": 1}, object(), DataFrame])
def test_whatever_else_is_left_to_those_who_read_it(items):
    refuse_table(items, "keqa")


def test_the_rows_of_a_table_with_nothing_in_it():
    pandas = pytest.importorskip("pandas")
    rows = [
        {"question": "When?", "answer": 1871, "answer_type": "short", "choices": None},
        {"question": "Which?", "answer": 2, "answer_type": "choice", "choices": ["1", "2"]},
        {"question": "Who?", "answer": None, "answer_type": None, "choices": None},
    ]
    given = pandas.DataFrame(rows).to_dict("records")
    read = sort_examples(given)
    assert [(one.question, one.answers, one.choices) for one in read.examples] == [
        ("When?", ("1871",), ()),
        ("Which?", ("2",), ("1", "2")),
    ]
    assert [str(problem) for problem in read.problems] == ["example 3: there is no answer"]
    assert [Question.arguments(row) for row in given] == [
        {"question": "When?", "answer_type": "short"},
        {"question": "Which?", "answer_type": "choice", "choices": ["1", "2"]},
        {"question": "Who?"},
    ]
