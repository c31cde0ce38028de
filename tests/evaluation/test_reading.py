"""Run files of a stranger: refused with file and line, at once, and without an error of any other kind."""

import json
import os
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.evaluation import reading
from keqa.evaluation.reading import iter_lines, read_header, read_run
from keqa.evaluation.records import RunHeader, RunLine, header_line, run_line
from keqa.evaluation.reports.measures import MEASURES, measure
from keqa.evaluation.reports.rows import entries_of
from keqa.evaluation.reports.summary import read_brief
from keqa.programs.records import (
    CallCost,
    ClusterRecord,
    Cost,
    Degradation,
    PassageVerdict,
    QuestionRecord,
    QuizRecord,
    SampleRecord,
)

CONFIGURATION = {
    "program": "KEQA",
    "settings": {"threshold": "4/5", "top_k": 10, "examine": True, "gate": None},
    "models": {"task": {"model": "keqa/tiny"}, "consistency": {"model": "keqa/tiny"}},
    "index": {"kind": "TantivyRetriever", "name": "testbed"},
}
HEADER = RunHeader(
    method="keqa", label="keqa", dataset="mine", ids=["1", "2"], configuration=CONFIGURATION, fingerprint="f"
)
QUIZ = QuizRecord(
    index=1,
    text="Who?",
    resolved="Who?",
    samples=[SampleRecord(text="Ann", cluster=0, probability=0.5)],
    clusters=[ClusterRecord(answer="Ann", size=1, members=[0])],
    tries=1,
    consistency=1.0,
    threshold=0.8,
    known=True,
    passages=[PassageVerdict(passage_id="a", title="", text="x", score=1.5, verdict="helpful", kept=True, why="y")],
    answer="Ann",
    source="memory",
)
LINE = RunLine(
    id="1",
    question="Who?",
    answers=["Ann"],
    answer="Ann",
    scores={"em": 1.0, "f1": 1.0, "contains": 1.0},
    record=QuestionRecord(
        question="Who?",
        quizzes=[QUIZ],
        answer="Ann",
        answer_source="memory",
        cost=Cost(by_role={"task": CallCost(calls=1, samples=1)}, by_step={"examination.quiz": CallCost(calls=1)}),
    ),
    seconds=1.0,
)
PLAIN = json.loads(run_line(LINE))


def write(path, header, *lines):
    path.write_bytes(b"".join([header, *lines]))
    return path


def changed(value, place, new):
    """The same JSON with another value at a place."""
    if not place:
        return new
    name, *rest = place
    inner = value[int(name)] if isinstance(value, list) else value.get(name)
    if isinstance(value, list):
        return [changed(inner, rest, new) if number == int(name) else one for number, one in enumerate(value)]
    return {**value, name: changed(inner, rest, new)}


def test_what_a_run_writes_is_read(tmp_path):
    path = write(tmp_path / "keqa.jsonl", header_line(HEADER), run_line(LINE))
    assert read_run(path).lines == [LINE]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("scores.f1", 2, "scores.f1: Input should be less than or equal to 1"),
        ("scores.f1", -0.5, "scores.f1: Input should be greater than or equal to 0"),
        ("scores.f1", float("nan"), "scores.f1: Input should be a finite number"),
        ("scores.f1", "1.0", "scores.f1: Input should be a valid number"),
        ("scores.f1", True, "scores.f1: Input should be a valid number"),
        ("seconds", -1, "seconds: Input should be greater than or equal to 0"),
        ("seconds", float("inf"), "seconds: Input should be a finite number"),
        ("colour", "red", "colour: Extra inputs are not permitted"),
        ("record.colour", "red", "record.colour: Extra inputs are not permitted"),
        ("record.quizzes.0.samples.0.colour", 1, "record.quizzes.0.samples.0.colour: Extra inputs are not permitted"),
        ("record.cost.by_role.task.calls", -1, "record.cost: calls is below 0"),
        ("record.cost.by_role.task.prompt_tokens", -5, "record.cost: prompt_tokens is below 0"),
        ("record.cost.by_role.task", {"calls": "x"}, "record.cost.by_role.task.calls: Input should be a valid integer"),
        ("record.cost.by_role.task", {"calls": [1]}, "record.cost.by_role.task.calls: Input should be a valid integer"),
        ("record.cost.retrieval_seconds", -1, "record.cost: retrieval_seconds is below 0"),
        (
            "record.cost.retrieval_seconds",
            float("nan"),
            "record.cost.retrieval_seconds: Input should be a finite number",
        ),
        ("record.quizzes.0.samples.0.cluster", 7, "quiz 1: a sample is in a cluster that is not there"),
        ("record.quizzes.0.clusters.0.members", [7], "quiz 1: a cluster has members that are not there"),
        ("record.quizzes.0.clusters.0.members", [-1], "quiz 1: a cluster has members that are not there"),
        ("record.quizzes.0.consistency", 7, "quiz 1: consistency is a share"),
        ("record.quizzes.0.passages.0.score", float("-inf"), "score: Input should be a finite number"),
        ("answer", None, "answer: either an answer or an error is expected"),
    ],
)
def test_a_line_that_no_run_writes_is_named(tmp_path, place, value, message):
    line = json.dumps(changed(PLAIN, place.split("."), value)).encode() + b"\n"
    path = write(tmp_path / "keqa.jsonl", header_line(HEADER), line)
    for read in (read_run, read_brief, lambda path: list(iter_lines(path))):
        with pytest.raises(InputError) as refused:
            read(path)
        assert "keqa.jsonl, line 2: the line is damaged" in str(refused.value)
        assert message in str(refused.value)


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"id":' * 100_000, b"9" * 10_000, b'{"id": "\xff"}', b"null"])
def test_a_line_that_is_no_json_of_a_run_is_named(tmp_path, line):
    path = write(tmp_path / "keqa.jsonl", header_line(HEADER), line + b"\n")
    with pytest.raises(InputError, match=r"keqa\.jsonl, line 2: the line is damaged"):
        read_run(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("ids", ["1", "1"], "ids: one of them is there twice"),
        ("ids", "12", "ids: Input should be a valid list"),
        ("seed", "0", "seed: Input should be a valid integer"),
        ("colour", 1, "colour: Extra inputs are not permitted"),
        ("left_out", {"x": -1}, "left_out.x: Input should be greater than or equal to 0"),
        ("configuration", {"settings": 5}, "configuration.settings: Input should be a valid dictionary"),
        ("configuration", {"models": None}, "configuration.models: Input should be a valid dictionary"),
        ("configuration", {"reference": 5}, "configuration.reference"),
        ("configuration", {"x": float("nan")}, "no run file"),
    ],
)
def test_a_header_that_no_run_writes_is_named(tmp_path, place, value, message):
    header = changed(json.loads(header_line(HEADER)), ["header", place], value)
    path = write(tmp_path / "keqa.jsonl", json.dumps(header).encode() + b"\n")
    with pytest.raises(InputError, match=r"keqa\.jsonl") as refused:
        read_header(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "first",
    [b"[" * 100_000, b'{"header": {}, "more": 1}', b'{"header": 5}', b'{"header": {}, "header": {}}', b"[1]", b""],
)
def test_a_first_line_of_something_else_is_no_run_file(tmp_path, first):
    path = write(tmp_path / "keqa.jsonl", first + b"\n")
    with pytest.raises(InputError, match="is no run file"):
        read_header(path)


def test_a_question_is_there_twice_only_where_it_was_asked_again(tmp_path):
    note = Degradation(stage="retrieve", cause="RetrievalError", message="x", action="y")
    impaired = LINE.model_copy(update={"record": LINE.record.model_copy(update={"degradations": [note]})})
    path = write(tmp_path / "keqa.jsonl", header_line(HEADER), run_line(impaired), run_line(LINE))
    assert read_run(path).lines == [LINE]
    write(path, header_line(HEADER), run_line(LINE), run_line(LINE))
    with pytest.raises(InputError, match=r"line 3: the line is damaged .*'1' is there twice"):
        read_run(path)


def test_a_line_without_end_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LONGEST_LINE", 5_000)
    path = write(tmp_path / "keqa.jsonl", header_line(HEADER), b" " * 10_000)
    with pytest.raises(InputError, match="line 2: it has more than 5,000 bytes"):
        read_run(path)
    with pytest.raises(InputError, match="line 1: it has more than 5,000 bytes"):
        read_header(write(path, b" " * 10_000))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_a_device_and_a_link_to_elsewhere_are_refused(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    write(tmp_path / "private.jsonl", header_line(HEADER), run_line(LINE))
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "device.jsonl").symlink_to("/dev/zero")
    (folder / "link.jsonl").symlink_to(tmp_path / "private.jsonl")
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    for name, message in {
        "pipe": "is a pipe",
        "device": "a link to a file outside its folder",
        "link": "a link to a file outside its folder",
        "loop": "cannot be read",
        "absent": "cannot be read",
    }.items():
        for read in (read_header, read_run):
            with pytest.raises(InputError, match=message):
                read(folder / f"{name}.jsonl")
    write(folder / "own.jsonl", header_line(HEADER), run_line(LINE))
    (folder / "latest.jsonl").symlink_to("own.jsonl")
    assert read_run(folder / "latest.jsonl").lines == [LINE]


def places_of(value, place=()):
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places_of(one, (*place, name))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def reported(path):
    """What tables read of a run file."""
    for entry in entries_of([read_brief(path)]):
        lines = list(entry.lines.values())
        for name in MEASURES:
            measure(name, lines)
        assert all(isinstance(line.quizzes, list) for line in lines)


@pytest.mark.slow
@settings(deadline=5000, max_examples=300)
@given(st.sampled_from(list(places_of(PLAIN))), JSON)
def test_a_line_with_anything_anywhere_is_reported_or_refused(tmp_path_factory, place, value):
    line = json.dumps(changed(PLAIN, place, value)).encode() + b"\n"
    path = write(tmp_path_factory.mktemp("runs") / "keqa.jsonl", header_line(HEADER), line)
    with suppress(InputError):
        reported(path)


@pytest.mark.slow
@settings(deadline=5000, max_examples=300)
@given(st.sampled_from(list(places_of(json.loads(header_line(HEADER))))), JSON)
def test_a_header_with_anything_anywhere_is_reported_or_refused(tmp_path_factory, place, value):
    header = json.dumps(changed(json.loads(header_line(HEADER)), place, value)).encode() + b"\n"
    path = write(tmp_path_factory.mktemp("runs") / "keqa.jsonl", header, run_line(LINE))
    with suppress(InputError):
        reported(path)


@settings(deadline=5000, max_examples=200)
@given(st.binary(max_size=50), st.integers(0, 2000), st.integers(0, 50))
def test_bytes_put_anywhere_are_reported_or_refused(tmp_path_factory, data, position, dropped):
    whole = header_line(HEADER) + run_line(LINE)
    position %= len(whole)
    path = tmp_path_factory.mktemp("runs") / "keqa.jsonl"
    path.write_bytes(whole[:position] + data + whole[position + dropped :])
    with suppress(InputError):
        reported(path)
