"""Run files: what is in them, how they are read and resumed, and what is refused with file and line."""

import json

import pytest
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.evaluation.records import RunHeader, RunLine, header_line, run_line
from keqa.evaluation.run_file import RunFile, forget_unasked, iter_lines, placed_lines, read_header, read_run
from keqa.programs.records import Degradation, Failure, QuestionRecord

IDS = ["a", "b", "c"]
ASKED = {name: (f"Who {name}?", (name,), "short", ()) for name in IDS}


def header(**changed):
    about = {"method": "keqa", "label": "run", "ids": IDS, "configuration": {"settings": {"top_k": 10}}}
    return RunHeader(**{"dataset": "d", "fingerprint": "f", **about, **changed})


def line(name, *, failed=False, answer="x"):
    error = Failure(stage="answer", cause="LMTimeoutError", message="no reply") if failed else None
    given = None if failed else answer
    return RunLine(id=name, question=f"Who {name}?", answers=[name], answer=given, scores={"em": 0.0}, error=error)


def impaired(name, cause="RetrievalError", answer="x"):
    """Answered without the passages of a search that failed."""
    note = Degradation(stage="retrieve", cause=cause, message="", action="went on without passages")
    record = QuestionRecord(question=f"Who {name}?", degradations=[note, note], answer=answer)
    return line(name, answer=answer).model_copy(update={"record": record})


def opened(path, asked=ASKED, head=None, **kwargs):
    return RunFile.open(path, head or header(), asked, **kwargs)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs" / "run.jsonl"


@pytest.fixture
def write(tmp_path):
    """Writes a file of these parts."""

    def written(*parts):
        (tmp_path / "mine.jsonl").write_bytes(b"".join(parts))
        return tmp_path / "mine.jsonl"

    return written


@pytest.fixture
def begun(path):
    """A file that holds some lines."""

    def begin(*lines):
        with opened(path) as file:
            for one in lines:
                file.add(one)
        return path

    return begin


def test_the_layout_of_a_file(write):
    path = write(header_line(header()), run_line(line("b", failed=True)))
    first, second = path.read_text().splitlines()
    assert json.loads(first) == {
        "header": {
            **{"format": 3, "method": "keqa", "label": "run", "dataset": "d", "split": "", "seed": 0, "ids": IDS},
            **{"configuration": {"settings": {"top_k": 10}}, "fingerprint": "f", "command": ""},
        }
    }
    assert json.loads(second) == {
        **{"id": "b", "question": "Who b?", "answers": ["b"], "answer_type": "short", "kind": "", "answer": None},
        **{"scores": {"em": 0.0}, "record": None, "seconds": 0.0},
        "error": {"stage": "answer", "cause": "LMTimeoutError", "message": "no reply"},
    }
    # What is seldom there is written where it is there.
    said = header(compiled="keqa", demonstrations={"answer": 0}, left_out={"unanswerable": 2}, learned_from=["a"])
    choice = line("a").model_copy(update={"choices": ["x", "y"], "golds": {}, "quiz_golds": {"Q?": ["x"]}})
    run = read_run(write(header_line(said), run_line(choice)))
    assert (run.header, run.lines, run.finished, run.failed) == (said, [choice], False, [])


@pytest.mark.parametrize("answer", ["A\u2028B\nC", "A\ud800 \U0001f600"])
def test_any_answer_is_one_line(write, answer):
    path = write(header_line(header()), run_line(line("a", answer=answer)))
    assert [one.answer for one in iter_lines(path)] == [answer.replace("\ud800", "?")]


def test_lines_are_read_in_the_order_of_the_later_header_and_of_two_lines_the_later_stands(write):
    lines = [line("c"), line("b", failed=True), line("a"), line("b", answer="now")]
    cut_off = run_line(line("a", answer="cut off"))[:-1]
    path = write(header_line(header(ids=["c"])), header_line(header()), *map(run_line, lines), cut_off)
    assert [(one.id, one.answer) for one in read_run(path).lines] == [("a", "x"), ("b", "now"), ("c", "x")]
    assert read_run(path).finished
    content = path.read_bytes()
    for place, one in placed_lines(path):
        assert content[place.start : place.stop] == run_line(one)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'{"id": 3}\n', "it does not begin with its id"),
        (b'{"id": "a"}\n', "question: Field required"),
        (b"null\n", "it does not begin with its id"),
        (run_line(line("b")).replace(b'"em": 0.0', b'"em": 2'), "scores.em: Input should be less than or equal to 1"),
        (run_line(line("b")).replace(b'"kind"', b'"colour"'), "colour: Extra inputs are not permitted"),
    ],
)
def test_a_damaged_line_is_named(write, bad, message):
    path = write(header_line(header()), run_line(line("a")), bad, run_line(line("c")))
    with pytest.raises(InputError, match=r"mine\.jsonl, line 3: the line is damaged .*delete it") as refused:
        read_run(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("first", "message"),
    [
        *((other, "is no run file") for other in (b"", b"{}\n", b"[1]\n", b"id,question\n", b'{"header": 1}\n')),
        (header_line(header()).replace(b'"format": 3', b'"format": 2'), "has format 2, and this version of KEQA reads"),
        (b'{"header": {"format": 3}}\n', "line 1: the header is damaged: method: Field required"),
    ],
)
def test_another_file_is_no_run_file(write, first, message):
    for read in (read_header, read_run):
        with pytest.raises(InputError, match=rf"mine\.jsonl.*{message}"):
            read(write(first))
    with pytest.raises(InputError, match="cannot be read"):
        read_run(write(first).with_name("none.jsonl"))


def test_a_file_is_only_added_to(begun):
    path = begun(*map(line, "cab"))
    before = path.read_bytes()
    with opened(path, retry_failed=True) as file:
        file.add(line("b", answer="again"))
    assert path.read_bytes() == before + run_line(line("b", answer="again"))
    assert [one.answer for one in read_run(path).lines] == ["x", "again", "x"]
    assert [entry.name for entry in path.parent.iterdir()] == ["run.jsonl"]


def test_failed_and_impaired_questions_are_asked_again_where_it_is_wanted(begun):
    path = begun(impaired("a"), line("b", failed=True), impaired("b", "AdapterParseError"), line("c", failed=True))
    found = []
    with opened(path, found=found.append) as file:
        assert [name in file for name in IDS] == [True, True, True]
    # What failed and was then answered without passages is no failure any more.
    assert [(one.id, one.failed) for one in found] == [("a", False), ("b", False), ("c", True)]
    found.clear()
    with opened(path, retry_failed=True, found=found.append) as file:
        # A reply that could not be used may have been spoilt on its way, and no cache holds it.
        assert [name in file for name in IDS] == [False, False, False]
        # Of an impaired question only what failed is asked again: the cache answers the rest.
        assert [file.again(name) for name in IDS] == [False, False, True]
        # Until it is asked, the failure stands.
        assert [one.id for one in read_run(path).failed] == ["c"]
        for one in (line("a", answer="now"), line("b", answer="now"), line("c")):
            file.add(one)
        assert not file.again("c")
    assert found == []
    # Killed amid a retry the new answers would stand as well.
    with opened(path, retry_failed=True, found=found.append) as file:
        assert all(name in file for name in IDS)
    assert [one.answer for one in found] == ["now", "now", "x"]


@given(cut=st.integers(min_value=0, max_value=5000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=at_most(60))
def test_wherever_it_was_cut_off_it_goes_on_from_the_last_whole_line(path, cut):
    path.parent.mkdir(exist_ok=True)
    parts = [header_line(header()), run_line(line("b")), run_line(line("a"))]
    whole = b"".join(parts)
    path.write_bytes(whole[: cut % (len(whole) + 1)])
    there = len(path.read_bytes())
    expected = {name for name, end in (("b", len(parts[0]) + len(parts[1])), ("a", len(whole))) if end <= there}
    with opened(path) as file:
        assert {name for name in IDS if name in file} == expected
        for name in IDS:
            if name not in file:
                file.add(line(name))
    assert read_run(path).lines == [line(name) for name in IDS]
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"method": "rag"}, 'method was "keqa", now "rag"'),
        ({"dataset": "e"}, 'dataset was "d", now "e"'),
        ({"split": "dev"}, 'split was "", now "dev"'),
        ({"seed": 1}, "seed was 0, now 1"),
        (
            {"configuration": {"settings": {"top_k": 5, "tries": 3}}},
            r"another configuration \(settings\.top_k was 10, now 5; settings\.tries was absent, now 3\)",
        ),
    ],
)
def test_another_run_is_refused_and_what_differs_is_named(begun, changed, reason):
    path = begun(line("a"))
    before = path.read_bytes()
    with pytest.raises(InputError, match=reason):
        opened(path, head=header(fingerprint="g", **changed))
    assert path.read_bytes() == before


def test_more_questions_may_be_asked_of_the_same_run(begun):
    path, more = begun(*map(line, "cab")), ["z", *IDS]
    with opened(path, {**ASKED, "z": ("Who z?", ("z",), "short", ())}, header(ids=more)) as file:
        assert [name in file for name in more] == [False, True, True, True]
        assert read_run(path).header.ids == more
        file.add(line("z"))
    assert [one.id for one in read_run(path).lines] == more


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({name: ASKED[name] for name in ("b", "c")}, "holds questions that are not asked now, such as 'a'"),
        ({**ASKED, "a": ("Who a?", ("another",), "short", ())}, "the question 'a', its choices or its answers"),
        ({**ASKED, "a": ("Who a?", ("a",), "short", ("a", "z"))}, "the question 'a', its choices"),
    ],
)
def test_other_questions_may_not_nor_may_one_change_under_its_id(begun, asked, message):
    path = begun(line("a"))
    with pytest.raises(InputError, match=message):
        opened(path, asked, header(ids=list(asked)))


def test_what_cannot_be_written_is_refused_and_stays_as_it_is(path):
    path.parent.mkdir()
    path.write_text("my notes")
    with pytest.raises(InputError, match="is no run file"):
        opened(path)
    assert path.read_text() == "my notes"
    with pytest.raises(InputError, match="cannot be written"):
        opened(path / "run.jsonl")
    other = path.with_name("other.jsonl")
    with opened(other), pytest.raises(InputError, match="in use by another run"):
        opened(other)
    opened(other).close()


def test_a_file_without_a_question_is_taken_away(path, begun):
    forget_unasked(path)
    begun()
    forget_unasked(path)
    assert not path.exists()
    begun(line("a"))
    forget_unasked(path)
    assert [one.id for one in read_run(path).lines] == ["a"]
