import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.data.rows import json_document, json_lines, json_list, table
from keqa.errors import InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)


def described(rows):
    return [(row.number, row.unit, str(row.value) if isinstance(row.value, InputError) else row.value) for row in rows]


@pytest.mark.parametrize("text", ['[{"a": 1},\n {"a": 2}]', ' \n[{"a": 1}, {"a": 2}]', '\ufeff[{"a": 1}, {"a": 2}]'])
def test_a_list(write_json, text):
    assert described(json_list(write_json("a.json", text))) == [(1, "record", {"a": 1}), (2, "record", {"a": 2})]


def test_lines_in_the_place_of_a_list(write_json):
    path = write_json("a.json", '\n{"a": 1}\n{"a": \n\n{"a": 2}\n')
    assert described(json_list(path)) == [
        (2, "line", {"a": 1}),
        (3, "line", "malformed JSON (Expecting value at column 6)"),
        (5, "line", {"a": 2}),
    ]


@pytest.mark.slow
@given(st.lists(JSON, max_size=5))
def test_a_list_and_lines_hold_the_same(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("rows")
    (folder / "a.json").write_text(json.dumps(values), encoding="utf-8")
    (folder / "a.jsonl").write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    assert [row.value for row in json_list(folder / "a.json")] == values
    assert [row.value for row in json_lines(folder / "a.jsonl")] == values


def test_gzip(tmp_path):
    with gzip.open(tmp_path / "a.json.gz", "wt", encoding="utf-8") as stream:
        stream.write('[{"a": 1}]')
    assert described(json_list(tmp_path / "a.json.gz")) == [(1, "record", {"a": 1})]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1},\n {"a" 2}]', r"a.json, (record 2, )?line 2: malformed JSON \(Expecting ':' delimiter"),
        ('["é"]'.encode("latin-1"), "not UTF-8"),
        (b"[" * 100_000, "malformed JSON"),
    ],
)
def test_a_file_that_is_no_json(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(json_list(tmp_path / "a.json"))
    with pytest.raises(InputError, match=message):
        json_document(tmp_path / "a.json")


def test_a_table_with_and_without_a_header(write_json):
    path = write_json("a.csv", 'a,b\n\n"1\n2",3\n4\n"5"6,7\n8,9\n')
    assert described(table(path, look_for=["a"])) == [
        (3, "line", {"a": "1\n2", "b": "3"}),
        (5, "line", "there are 1 cells, 2 are expected"),
        (6, "line", "malformed CSV (',' expected after '\"')"),
        (7, "line", {"a": "8", "b": "9"}),
    ]
    assert next(table(path, ["x", "y"])).value == {"x": "a", "y": "b"}


@pytest.mark.parametrize("text", ["", "x,y\n" * 20 + "a,b\n1,2\n"])
def test_a_table_without_the_columns(write_json, text):
    with pytest.raises(InputError, match="no line has the columns a, b"):
        list(table(write_json("a.csv", text), look_for=["a", "b"]))
