"""Answers kept as they come: what is asked again, and what is not."""

from __future__ import annotations

import re

import pytest
from dspy.lm15 import AuthError, ServerError

from keqa.data.question import question_digest
from keqa.errors import ConfigurationError, InputError, StorageError
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking
from keqa.optimize.failures import Failed, Failures, TooManyFailuresError
from keqa.optimize.reference import UtilityEntry
from keqa.optimize.scoring import example_for_metrics
from keqa.optimize.student import Student
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.storage.journal import Journal


@pytest.fixture
def journal(tmp_path):
    with Journal.open(tmp_path / "journal.jsonl", {}) as opened:
        yield opened


def asked(world, journal, **options):
    return Asking(journal, f1, **options).traces(world.program, world.train)


def test_each_question_is_asked_once(setting, journal):
    world = setting(train=3)
    told = []
    first = asked(world, journal, progress=lambda *step: told.append(step))
    calls = len(world.engine.calls)
    assert asked(world, journal) == first
    assert len(world.engine.calls) == calls
    assert [trace.record.answer for trace in first] == ["Spouse0", "Spouse1", "Spouse2"]
    assert [trace.retrievals for trace in first] == [1, 1, 1]
    assert told == [("asking", done, 3) for done in range(4)]


def entry(root: str, quiz: str = "q", passage: str = "p", question: str = "") -> UtilityEntry:
    return UtilityEntry(
        root=root,
        quiz=quiz,
        passage=passage,
        passage_id="1",
        helpful=True,
        gain=1.0,
        basis="question",
        question=question,
    )


def test_a_question_never_sees_its_own_entries_of_the_reference(setting, journal):
    world = setting(train=2)
    entries = [
        entry(example.id, passage=f"passage of {example.id}", question=question_digest(example.question))
        for example in world.train
    ]
    world.program.picking.reference = UtilityReference().fit(entries)
    asked(world, journal, in_flight=1)
    judged = [prompt for prompt in world.engine.prompts if "passage of t" in prompt]
    assert len(judged) == 4
    for prompt in judged:
        about, shown = ("t0", "t1") if "Mayor0" in prompt else ("t1", "t0")
        assert f"passage of {shown}" in prompt
        assert f"passage of {about}" not in prompt


def test_a_failure_that_may_pass_is_asked_again_and_another_is_kept(setting, town, journal):
    world = setting(town(refuses="Summarize"), train=1)
    (trace,) = asked(world, journal)
    assert (trace.score, trace.record.failure.stage) == (0.0, "summarize")
    assert "summarize failed" in trace.error
    calls = len(world.engine.calls)
    asked(world, journal)
    assert len(world.engine.calls) == calls

    world = setting(train=3, top_k=1)
    reply, failures = world.fail(ServerError("down"), lambda name, inputs: "Town2" in inputs), Failures()
    trace = asked(world, journal, failures=failures)[2]
    assert (trace.record, trace.score) == (None, 0.0)
    assert "failed" in trace.error
    assert failures.found == [Failed("asking", 3, 1, "LMServerError")]
    world.engine.reply = reply
    calls = len(world.engine.calls)
    assert asked(world, journal)[2].score > 0
    assert {inputs["question"] for name, inputs, _ in world.engine.calls[calls:] if "question" in inputs} == {
        world.train[2].question,
        "To whom is Mayor2 married?",
    }


def test_a_server_that_is_down_ends_it_and_keeps_what_was_answered(setting, journal):
    world = setting(train=6)
    first = ("Town0", "Mayor0", "Spouse0")
    world.fail(ServerError("down"), lambda name, inputs: not any(named in inputs for named in first))
    with pytest.raises(TooManyFailuresError, match=r"asking: 4 of 6 questions .*LMServerError.*the same command"):
        asked(world, journal, in_flight=1)
    assert len(journal) == 1


RECORD = {"question": "Who?", "answer": "Ann", "answer_source": "memory"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"record": {"question": 7}}, "record.question: Input should be a valid string"),
        ({"record": RECORD, "steps": [["a", {}]]}, "steps.0.2: Field required"),
        ({"record": RECORD, "answer": "Ann"}, "answer: Extra inputs are not permitted"),
    ],
)
def test_what_nobody_kept_in_a_journal_is_refused(setting, tmp_path, value, reason):
    world, path = setting(train=2), tmp_path / "forged.jsonl"
    with Journal.open(path, {}) as journal:
        asking = Asking(journal, f1)
        for task in asking.tasks(world.program, world.train):
            journal.put(task.key, {"record": RECORD})
        journal.put(task.key, value)
    refused = pytest.raises(StorageError, match=rf"the journal is damaged at .*{re.escape(reason)}")
    with Journal.open(path, {}) as journal, refused:
        asked(world, journal)
    assert world.engine.calls == []


def test_a_full_disk_is_no_wrong_answer(setting, journal, monkeypatch):
    def full(*arguments, **options):
        raise StorageError("the journal cannot be written: database or disk is full")

    monkeypatch.setattr("keqa.storage.journal.SqliteStore.put", full)
    with pytest.raises(InputError, match="cannot be written"):
        asked(setting(train=2), journal)


def test_a_wrong_key_ends_it_and_keeps_what_was_answered(setting, journal):
    world = setting(train=3)
    world.fail(AuthError("no"), lambda name, inputs: "Town2" in inputs)
    with pytest.raises(ConfigurationError):
        asked(world, journal, in_flight=1)
    assert len(journal) == 2


def test_a_replayed_answer_has_the_trace_of_the_first(setting, journal):
    import dspy

    world = setting(train=1)
    student = Student(world.program, Asking(journal, f1), ["answering.answer", "examination.quiz"])
    (one,) = map(example_for_metrics, world.train)
    traces = []
    for _ in range(2):
        with dspy.context(trace=[]):
            prediction = student(**one.inputs())
            traces.append([(p.signature.__name__, i, dict(o)) for p, i, o in dspy.settings.trace])
        calls = len(world.engine.calls)
    assert traces[0] == traces[1]
    assert {name for name, _, _ in traces[0]} == {"AnswerWithKnowledge", "AnswerQuiz"}
    assert prediction.answer == "Spouse0"
    assert len(world.engine.calls) == calls
    assert [name for name, _ in student.named_predictors()] == [
        "program.examination.quiz",
        "program.answering.answer",
    ]
