from __future__ import annotations

import json

import pytest

from keqa.errors import InputError
from keqa.evaluation.records import RunHeader, RunLine, header_line, run_line
from keqa.evaluation.run_file import iter_lines, read_header, read_run
from keqa.programs.records import Failure, QuestionRecord

HEADER = RunHeader(
    method="keqa", label="mine", dataset="towns", ids=["a", "b"], configuration={"top_k": 5}, fingerprint="f"
)
RIGHT = RunLine(
    id="a",
    question="Who?",
    answers=["Ann"],
    kind="one hop",
    answer="Ann",
    scores={"em": 1.0},
    record=QuestionRecord(question="Who?", answer="Ann"),
)
FAILED = RunLine(
    id="b",
    question="Where?",
    answers=["Rome"],
    scores={"em": 0.0},
    error=Failure(stage="answer", cause="LMTimeoutError", message="no reply"),
)


def write(tmp_path, *parts):
    path = tmp_path / "mine.jsonl"
    path.write_bytes(b"".join(parts))
    return path


def test_a_run_comes_back_as_it_was_written(tmp_path):
    run = read_run(write(tmp_path, header_line(HEADER), run_line(RIGHT), run_line(FAILED)))
    assert (run.header, run.lines) == (HEADER, [RIGHT, FAILED])
    assert run.finished
    assert run.failed == [FAILED]


def test_the_layout_of_a_file(tmp_path):
    first, second = write(tmp_path, header_line(HEADER), run_line(FAILED)).read_text().splitlines()
    assert json.loads(first) == {
        "header": {
            "format": 3,
            "method": "keqa",
            "label": "mine",
            "dataset": "towns",
            "split": "",
            "seed": 0,
            "ids": ["a", "b"],
            "configuration": {"top_k": 5},
            "fingerprint": "f",
            "command": "",
        }
    }
    assert json.loads(second) == {
        "id": "b",
        "question": "Where?",
        "answers": ["Rome"],
        "answer_type": "short",
        "kind": "",
        "answer": None,
        "scores": {"em": 0.0},
        "record": None,
        "error": {"stage": "answer", "cause": "LMTimeoutError", "message": "no reply"},
        "seconds": 0.0,
    }


def test_a_header_says_what_its_program_was_shown(tmp_path):
    described = HEADER.model_copy(
        update={"compiled": "keqa", "demonstrations": {"answer": 0}, "left_out": {"unanswerable": 2}}
    )
    path = write(tmp_path, header_line(described))
    assert read_header(path) == described
    assert read_header(write(tmp_path, header_line(HEADER))).demonstrations is None


def test_choices_and_what_an_oracle_knew_are_there_where_there_are_any(tmp_path):
    choice = RIGHT.model_copy(update={"choices": ["Ann", "Bob"], "golds": {}})
    path = write(tmp_path, header_line(HEADER), run_line(choice))
    written = json.loads(path.read_text().splitlines()[1])
    assert (written["choices"], written["golds"]) == (["Ann", "Bob"], {})
    assert list(iter_lines(path)) == [choice]
    assert choice.content != RIGHT.content


def test_a_run_is_finished_when_every_question_was_asked(tmp_path):
    assert not read_run(write(tmp_path, header_line(HEADER), run_line(RIGHT))).finished


def test_a_line_that_was_cut_off_is_left_out(tmp_path):
    path = write(tmp_path, header_line(HEADER), run_line(RIGHT), run_line(FAILED)[:-1])
    assert list(iter_lines(path)) == [RIGHT]


def test_of_a_question_asked_twice_the_later_line_stands(tmp_path):
    later = FAILED.model_copy(update={"answer": "Rome", "error": None})
    run = read_run(write(tmp_path, header_line(HEADER), run_line(FAILED), run_line(RIGHT), run_line(later)))
    assert {line.id: line.answer for line in run.lines} == {"a": "Ann", "b": "Rome"}


def test_half_a_surrogate_pair_is_written_as_a_question_mark(tmp_path):
    path = write(tmp_path, header_line(HEADER), run_line(RIGHT.model_copy(update={"answer": "A\ud800 \U0001f600"})))
    assert [line.answer for line in iter_lines(path)] == ["A? \U0001f600"]


def test_a_line_separator_in_an_answer_breaks_no_line(tmp_path):
    path = write(tmp_path, header_line(HEADER), run_line(RIGHT.model_copy(update={"answer": "A\u2028B\nC"})))
    assert [line.answer for line in iter_lines(path)] == ["A\u2028B\nC"]


def test_a_damaged_line_is_named(tmp_path):
    path = write(tmp_path, header_line(HEADER), run_line(RIGHT), b'{"id": 3}\n', run_line(FAILED))
    with pytest.raises(InputError, match=r"mine\.jsonl, line 3: the line is damaged .*delete it"):
        read_run(path)


@pytest.mark.parametrize("first", [b"", b"{}\n", b"[1]\n", b"id,question\n", b'{"header": 1}\n'])
def test_another_file_is_no_run_file(tmp_path, first):
    with pytest.raises(InputError, match="is no run file"):
        read_header(write(tmp_path, first))


def test_a_header_of_a_later_version(tmp_path):
    later = header_line(HEADER).replace(b'"format": 3', b'"format": 4')
    with pytest.raises(InputError, match="has format 4, this version of KEQA reads 1, 2, 3"):
        read_header(write(tmp_path, later))


def test_a_damaged_header_names_what_is_missing(tmp_path):
    with pytest.raises(InputError, match=r"line 1: the header is damaged: method: Field required"):
        read_header(write(tmp_path, b'{"header": {"format": 1}}\n'))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_run(tmp_path / "none.jsonl")
