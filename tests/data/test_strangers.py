"""Files of questions that someone else made."""

import gzip
import json
import os
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.data import json_stream, rows
from keqa.data.json_stream import elements
from keqa.data.own import read_examples
from keqa.data.rows import json_document, json_lines, json_list
from keqa.errors import InputError


@pytest.mark.parametrize("read", [json_list, json_lines, elements, lambda path: [json_document(path)]])
def test_a_pipe_is_never_waited_for(tmp_path, read):
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


@pytest.mark.parametrize("element", ["[" * 200_000, '{"a":' * 200_000, "9" * 5000, "[" + "9" * 5000 + "]"])
def test_what_nothing_that_follows_makes_better_is_reported_at_once(tmp_path, element, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("[1, " + element + " " * 10_000_000)
    read = []
    more = json_stream._Text.more
    monkeypatch.setattr(json_stream._Text, "more", lambda self: read.append(more(self)))
    with pytest.raises(InputError, match="record 2, line 1: malformed JSON"):
        list(elements(path))
    assert len(read) < 4


def test_an_element_is_bounded_however_it_is_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "MAX_LINE", 100_000)
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'[{"a": 1}, "' + b"a" * 10_000_000))
    with pytest.raises(InputError, match="record 2, line 1: longer than"):
        list(elements(path, chunk=10_000))


def test_a_document_is_bounded_however_it_is_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_LARGEST", 100_000)
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b'"' + b"a" * 1_000_000 + b'"'))
    with pytest.raises(InputError, match="the most that is read"):
        json_document(path)


@pytest.mark.parametrize("read", [json_list, json_lines, elements, lambda path: [json_document(path)]])
def test_a_packed_file_that_is_damaged_is_one_line(tmp_path, read):
    content = json.dumps([{"question": f"{n * n}?", "answer": str(n)} for n in range(2000)]).encode()
    whole = gzip.compress(content)
    for data in (whole[:-9], whole[:30] + b"\xff" * 9 + whole[39:]):
        (tmp_path / "x.json.gz").write_bytes(data)
        with pytest.raises(InputError, match="cannot be read"):
            list(read(tmp_path / "x.json.gz"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_half_a_character_is_no_part_of_a_question(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"question": "Who\\ud800 was it?", "answer": "I\\udfff"}\n')
    (example,) = read_examples(path).examples
    assert (example.question, *example.answers) == ("Who was it?", "I")
