from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.errors import InputError
from keqa.evaluation.records import RunHeader, RunLine, content_of, header_line, run_line
from keqa.evaluation.run_file import RunFile, read_run
from keqa.programs.records import Degradation, Failure, QuestionRecord

IDS = ["a", "b", "c"]
ASKED = {name: content_of(f"Who {name}?", [name], "short") for name in IDS}


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


def ids(path):
    return [one.id for one in read_run(path).lines]


def test_lines_are_there_at_once_and_in_order_at_the_end(path):
    with opened(path) as file:
        file.add(line("c"))
        assert ids(path) == ["c"]
        file.add(line("a"))
        file.add(line("b"))
        assert ids(path) == ["c", "a", "b"]
        file.finish()
    assert ids(path) == IDS
    assert read_run(path).header == header()
    assert [entry.name for entry in path.parent.iterdir()] == ["run.jsonl"]


def test_it_can_be_added_to_after_it_was_put_in_order(path):
    with opened(path) as file:
        for name in "cab":
            file.add(line(name))
        file.finish()
        file.add(line("b", answer="again"))
        file.finish()
    assert [one.answer for one in read_run(path).lines] == ["x", "again", "x"]
    assert path.read_bytes() == header_line(header()) + b"".join(
        run_line(line(name, answer="again" if name == "b" else "x")) for name in IDS
    )


def test_while_questions_are_left_the_order_stays(path):
    with opened(path) as file:
        file.add(line("c"))
        file.add(line("a"))
        file.finish()
    assert ids(path) == ["c", "a"]


def test_it_knows_what_was_asked(path):
    with opened(path) as file:
        file.add(line("b"))
        file.add(line("c", failed=True))
    found = []
    with opened(path, found=found.append) as file:
        assert [name in file for name in IDS] == [False, True, True]
    assert [one.id for one in found] == ["b", "c"]


def test_failed_questions_are_asked_again_where_it_is_wanted(path):
    with opened(path) as file:
        file.add(line("b", failed=True))
        file.add(line("a"))
        file.add(line("c"))
        file.finish()
    found = []
    with opened(path, retry_failed=True, found=found.append) as file:
        assert [name in file for name in IDS] == [True, False, True]
        assert [one.id for one in found] == ["a", "c"]
        # Until it is asked, the failure stands.
        assert [one.id for one in read_run(path).failed] == ["b"]
        file.add(line("b", answer="now"))
        assert "b" in file
        file.finish()
    assert [one.answer for one in read_run(path).lines] == ["x", "now", "x"]
    assert path.read_bytes().count(b"\n") == 4


def test_so_are_those_that_were_answered_although_a_search_failed(path):
    with opened(path) as file:
        file.add(impaired("a"))
        file.add(impaired("b", "AdapterParseError"))
        file.add(line("c", failed=True))
        file.finish()
    with opened(path) as file:
        assert [name in file for name in IDS] == [True, True, True]
    found = []
    with opened(path, retry_failed=True, found=found.append) as file:
        # A reply that could not be used may have been spoilt on its way, and no cache holds it.
        assert [name in file for name in IDS] == [False, False, False]
        # Of an impaired question only what failed is asked again: the cache answers the rest.
        assert [file.again(name) for name in IDS] == [False, False, True]
        file.add(line("a", answer="now"))
        file.add(line("b", answer="now"))
        file.add(line("c"))
        file.finish()
    assert found == []
    assert [one.answer for one in read_run(path).lines] == ["now", "now", "x"]
    with opened(path, retry_failed=True) as file:
        assert all(name in file for name in IDS)


def test_what_failed_and_was_then_answered_without_passages_is_no_failure_any_more(path):
    with opened(path) as file:
        file.add(line("a", failed=True))
        file.add(impaired("a"))
    found = []
    with opened(path, found=found.append):
        pass
    assert [(one.id, one.failed) for one in found] == [("a", False)]
    with opened(path, retry_failed=True) as file:
        assert ("a" in file, file.again("a")) == (False, False)


def test_killed_amid_a_retry_the_new_answer_stands(path):
    with opened(path) as file:
        file.add(line("b", failed=True))
    with opened(path, retry_failed=True) as file:
        file.add(line("b", answer="now"))
    found = []
    with opened(path, retry_failed=True, found=found.append) as file:
        assert "b" in file
    assert [one.answer for one in found] == ["now"]


@given(cut=st.integers(min_value=0, max_value=5000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
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
        file.finish()
    assert path.read_bytes() == header_line(header()) + b"".join(run_line(line(name)) for name in IDS)


def test_another_configuration_is_refused_and_named(path):
    with opened(path) as file:
        file.add(line("a"))
    before = path.read_bytes()
    other = header(configuration={"settings": {"top_k": 5, "tries": 3}}, fingerprint="g")
    message = r"another configuration \(settings\.top_k was 10, now 5; settings\.tries was absent, now 3\)"
    with pytest.raises(InputError, match=message):
        opened(path, head=other)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"method": "rag"}, 'method was "keqa", now "rag"'),
        ({"dataset": "e"}, 'dataset was "d", now "e"'),
        ({"split": "dev"}, 'split was "", now "dev"'),
        ({"seed": 1}, "seed was 0, now 1"),
    ],
)
def test_so_is_another_run(path, changed, reason):
    opened(path).close()
    with pytest.raises(InputError, match=reason):
        opened(path, head=header(fingerprint="g", **changed))


def test_more_questions_may_be_asked_of_the_same_run(path):
    with opened(path) as file:
        for name in "cab":
            file.add(line(name))
        file.finish()
    more = ["z", *IDS]
    asked = {**ASKED, "z": content_of("Who z?", ["z"], "short")}
    with opened(path, asked, header(ids=more)) as file:
        assert [name in file for name in more] == [False, True, True, True]
        assert read_run(path).header.ids == more
        file.add(line("z"))
        file.finish()
    assert ids(path) == more


def test_other_questions_may_not(path):
    with opened(path) as file:
        file.add(line("c"))
    fewer = {name: ASKED[name] for name in ("a", "b")}
    with pytest.raises(InputError, match="holds questions that are not asked now, such as 'c'"):
        opened(path, fewer, header(ids=["a", "b"]))


def test_nor_may_a_question_change_under_its_id(path):
    with opened(path) as file:
        file.add(line("a"))
    changed = {**ASKED, "a": content_of("Who a?", ["another"], "short")}
    with pytest.raises(InputError, match="the question 'a', its choices or its answers have changed"):
        opened(path, changed)


@pytest.mark.parametrize("reason", ["by the line", "by the record"])
def test_nor_may_its_choices(path, reason):
    asked = {"a": content_of("Who a?", ["x"], "choice", ["x", "y"])}
    record = QuestionRecord(question="Who a?", answer_type="choice", choices=["x", "y"], answer="x")
    where = {"choices": ["x", "y"]} if reason == "by the line" else {"record": record}
    choice = RunLine(id="a", question="Who a?", answers=["x"], answer_type="choice", answer="x", scores={}, **where)
    with opened(path, asked, header(ids=["a"])) as file:
        file.add(choice)
    with opened(path, asked, header(ids=["a"])) as file:
        assert "a" in file
    changed = {"a": content_of("Who a?", ["x"], "choice", ["x", "z"])}
    with pytest.raises(InputError, match="the question 'a', its choices or its answers have changed"):
        opened(path, changed, header(ids=["a"]))


def test_a_file_that_is_something_else_stays_as_it_is(path):
    path.parent.mkdir()
    path.write_text("my notes")
    with pytest.raises(InputError, match="is no run file"):
        opened(path)
    assert path.read_text() == "my notes"


def test_two_runs_do_not_write_one_file(path):
    with opened(path), pytest.raises(InputError, match="in use by another run"):
        opened(path)
    opened(path).close()


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        opened(tmp_path / "runs" / "run.jsonl")
