"""The rows of files, which may be someone else's: in pieces, packed, damaged, endless."""

import gzip
import json
import os
import threading

import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.data import rows
from keqa.data.own import read_examples
from keqa.data.rows import elements, json_document, json_lines, json_list, table
from keqa.errors import InputError

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)
READERS = [json_list, json_lines, elements, lambda path: [json_document(path)]]


def described(found):
    return [(row.number, row.unit, str(row.value) if isinstance(row.value, InputError) else row.value) for row in found]


@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.sampled_from([None, 0, 2]), st.booleans())
def test_a_list_in_pieces_of_any_size_and_lines_hold_the_same(tmp_path_factory, values, chunk, indent, ascii_only):
    path = tmp_path_factory.mktemp("stream") / "a.json"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert list(elements(path, chunk)) == [row.value for row in json_list(path)] == json_document(path) == values
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    assert [row.value for row in json_lines(path)] == values


@pytest.mark.parametrize(
    "text", ['[{"a": 1},\n {"a": 2}]', ' \n[{"a": 1}, {"a": 2}]', '\ufeff[{"a": 1} \r\n,{"a": 2}]']
)
def test_a_list(tmp_path, text):
    for path in (tmp_path / "a.json", tmp_path / "a.json.gz"):
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        assert described(json_list(path)) == [(1, "record", {"a": 1}), (2, "record", {"a": 2})]


def test_lines_in_the_place_of_a_list(write_json):
    path = write_json("a.json", '\n{"a": 1}\n{"a": \n\n{"a": 2}\n{"a": "b\n')
    assert described(json_list(path)) == [
        (2, "line", {"a": 1}),
        (3, "line", "malformed JSON (Expecting value at column 6)"),
        (5, "line", {"a": 2}),
        (6, "line", "malformed JSON (Unterminated string starting at column 7)"),
    ]


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "record 1, line 1: a list is expected"),
        ('{"a": 1}', "record 1, line 1: a list is expected"),
        ("[", r"record 1, line 1: malformed JSON \(Expecting value\)"),
        ("[1,\n2", "record 3, line 2: a comma, or the end of it, is expected"),
        ("[1,\n\n2 3]", "record 3, line 3: a comma, or the end of it, is expected"),
        ("[1,\n]", r"record 2, line 2: malformed JSON \(Expecting value\)"),
        ('[1,\n{"a":\n"b}]', r"record 2, line 2: malformed JSON \(Unterminated string starting at\)"),
        ("[1]\n2", "record 2, line 1: a comma, or the end of it, is expected"),
    ],
)
def test_what_is_malformed_in_a_list_is_named(write_json, text, message, chunk):
    with pytest.raises(InputError, match=message):
        list(elements(write_json("a.json", text), chunk))


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
    for read in (json_list, json_document):
        with pytest.raises(InputError, match=message):
            list(read(tmp_path / "a.json"))


def test_a_table_with_and_without_a_header(write_json):
    path = write_json("a.csv", 'a,b\n\n"1\n2",3\n4\n"5"6,7\n8,9\n')
    assert described(table(path, look_for=["a"])) == [
        (3, "line", {"a": "1\n2", "b": "3"}),
        (5, "line", "there are 1 cells, 2 are expected"),
        (6, "line", "malformed CSV (',' expected after '\"')"),
        (7, "line", {"a": "8", "b": "9"}),
    ]
    assert next(table(path, ["x", "y"])).value == {"x": "a", "y": "b"}
    for text in ("", "x,y\n" * 20 + "a,b\n1,2\n"):
        with pytest.raises(InputError, match="no line has the columns a, b"):
            list(table(write_json("a.csv", text), look_for=["a", "b"]))


@pytest.mark.parametrize("read", READERS)
def test_a_pipe_is_never_waited_for_and_what_is_damaged_or_missing_is_one_line(tmp_path, read):
    os.mkfifo(tmp_path / "x.json")
    ended = []

    def work():
        with pytest.raises(InputError, match="is a pipe"):
            list(read(tmp_path / "x.json"))
        ended.append(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert ended == [None]
    content = json.dumps([{"question": f"{n * n}?", "answer": str(n)} for n in range(2000)]).encode()
    whole = gzip.compress(content)
    for data in (b"no archive", whole[:-9], whole[:30] + b"\xff" * 9 + whole[39:]):
        (tmp_path / "x.json.gz").write_bytes(data)
        with pytest.raises(InputError, match="cannot be read"):
            list(read(tmp_path / "x.json.gz"))
    with pytest.raises(InputError, match="cannot be read"):
        list(read(tmp_path / "absent.json"))


@pytest.mark.parametrize("element", ["[" * 200_000, '{"a":' * 200_000, "9" * 5000, "[" + "9" * 5000 + "]"])
def test_what_nothing_that_follows_makes_better_is_reported_at_once(write_json, element):
    # Further on it would be more than is read of one.
    with pytest.raises(InputError, match="record 2, line 1: malformed JSON"):
        list(elements(write_json("x.json", "[1, " + element + " " * 20_000_000)))


def test_an_element_and_a_document_are_bounded_however_they_are_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MAX_LINE", 100_000)
    monkeypatch.setattr(rows, "_LARGEST", 100_000)
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'[{"a": 1}, "' + b"a" * 10_000_000))
    with pytest.raises(InputError, match="record 2, line 1: longer than"):
        list(elements(path, chunk=10_000))
    path.write_bytes(gzip.compress(b"[" + b" \n,".join([b'{"a": 1}'] * 20_000) + b"]"))
    assert len(list(elements(path, chunk=10_000))) == 20_000
    with pytest.raises(InputError, match="the most that is read"):
        json_document(path)


@settings(max_examples=at_most(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from([".jsonl", ".csv", ".tsv", ".jsonl.gz"]))
def test_any_bytes_are_questions_or_an_input_error(tmp_path, data, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(data)
    reported, examples = "", []
    try:
        examples = read_examples(path).examples
    except InputError as error:
        reported = str(error)
    assert examples or path.name in reported
