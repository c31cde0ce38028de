"""Questions of a step: their scores, their keys, and what is kept of each."""

from __future__ import annotations

import json
from dataclasses import replace

import dspy
import pytest
from dspy.lm15 import InvalidRequestError, ServerError

from keqa.data.example import Example
from keqa.errors import StageError
from keqa.metrics.answers import f1
from keqa.optimize.alignment import Settled
from keqa.optimize.asking import Asking
from keqa.optimize.bootstrap import ClosedBookAnswers
from keqa.optimize.failures import Failed
from keqa.programs.calls.batch import Outcome
from keqa.programs.keqa import KEQA
from keqa.programs.records import Degradation, QuestionRecord, QuizRecord
from keqa.storage.journal import Journal

CHOICE = Example("c", "Which is it?", ("Rome",), "choice", ("Oslo", "Rome"))
TRUE = Example("y", "Is it so?", ("yes",), "yes/no")


@pytest.fixture
def asking(tmp_path):
    with Journal.open(tmp_path / "journal.jsonl", {}) as journal:
        yield Asking(journal, f1, in_flight=1)


def record(answer="b", **told):
    return QuestionRecord(question=CHOICE.question, answer=answer, **told)


def kept_lines(asking):
    return [{"key": key, "value": asking.journal.get(key)} for key in asking.journal]


@pytest.mark.parametrize(
    ("example", "answer", "score"),
    [(CHOICE, "b", 1.0), (CHOICE, "a", 0.0), (TRUE, "true", 1.0), (TRUE, None, 0.0), (TRUE, "", 0.0)],
)
def test_an_answer_is_scored_by_its_type(asking, example, answer, score):
    assert asking.score(example, record(answer)) == score
    assert asking.score(example, None) == 0.0


def test_a_key_says_what_is_asked_of_which_program(asking):
    program, other = KEQA(None), KEQA(None, tries=7)

    def key(program=program, example=CHOICE, drawn=""):
        (task,) = asking.tasks(program, [example], drawn)
        assert (task.example, task.program) == (example, program)
        return task.key

    changed = [replace(CHOICE, question="Which?"), replace(CHOICE, choices=("Rome", "Oslo"))]
    changed += [replace(CHOICE, answer_type="short")]
    keys = [key(), key(other), *(key(example=one) for one in changed), key(drawn="x"), key(drawn="y")]
    assert len(set(keys)) == 7
    assert key(drawn="x") == f"{key()}:x"
    # What is learned from it is no matter of what is asked.
    assert key() == key(example=replace(CHOICE, id="other", answers=("Oslo",)))


def test_a_question_is_asked_without_the_demonstrations_that_come_from_it(asking):
    program = KEQA(None)
    demo = {"question": "Who?", "quizzes": ["Who?"]}
    program.decomposition.decompose.demos = [dspy.Example(**demo)]
    asking.origins.add(program.decomposition.decompose.signature, demo, CHOICE)
    program.learned = asking.origins.known_to(program)
    own, other = asking.tasks(program, [CHOICE, replace(CHOICE, question="Or which?")])
    assert (own.program.decomposition.decompose.demos, other.program) == ([], program)
    assert own.key != other.key
    assert own.key == asking.tasks(KEQA(None), [CHOICE])[0].key


JUDGE_AWAY = Degradation(stage="judge_utility", cause="LMServerError", message="down", action="kept")
STEP = ("answering.answer", {"question": "Who?"}, {"answer": "b"})


@pytest.mark.parametrize(
    ("found", "error", "steps", "lasting", "returned"),
    [
        (record(), None, None, True, record()),
        (record(), None, [STEP], True, record()),
        (record(None), StageError("answer", "LMInvalidRequestError", "no"), None, True, record(None)),
        # What another attempt may answer is not kept, but where there is an answer that counts until then.
        (record(degradations=[JUDGE_AWAY]), None, None, False, record(degradations=[JUDGE_AWAY])),
        (record(None), StageError("answer", "LMServerError", "down"), [STEP], False, None),
        (None, ValueError("no question"), None, True, None),
    ],
)
def test_what_is_kept_of_a_question(asking, found, error, steps, lasting, returned):
    (task,) = asking.tasks(KEQA(None), [CHOICE])
    kept = asking.keep(task, Outcome(0, CHOICE, found, error), steps)
    said = None if error is None else str(error)
    assert (kept.record, kept.error, kept.steps) == (returned, said, steps)
    assert [line["key"] for line in kept_lines(asking)] == [task.key] * lasting
    for line in kept_lines(asking):
        parts = {"record", *(["error"] if error else []), *(["steps"] if steps else [])}
        assert set(line["value"]) == parts
    assert asking.kept(task, steps=False) == (kept if lasting else None)
    assert asking.kept(task, steps=True) == (kept if lasting and steps else None)


def test_no_key_is_kept(asking, scripted):
    lm, _ = scripted(lambda *asked: {})
    lm.kwargs["api_key"] = "sk-very-secret-0123456789"
    program = KEQA(None)
    program.set_lm(lm)
    (task,) = asking.tasks(program, [CHOICE])
    told = StageError("answer", "LMInvalidRequestError", "no sk-very-secret-0123456789")
    away = JUDGE_AWAY.model_copy(update={"message": "sk-very-secret-0123456789 is away", "harmless": True})
    kept = asking.keep(task, Outcome(0, CHOICE, record(degradations=[away]), told), None)
    assert "secret-0123" not in str(kept_lines(asking)) + str(kept)
    assert (kept.error, kept.record.degradations[0].message) == (
        "answer failed (LMInvalidRequestError): no <secret>",
        "<secret> is away",
    )


def test_failures_of_an_earlier_run_are_counted_and_end_nothing(setting, town, asking):
    world = setting(town(refuses="Summarize"), train=3)
    long = replace(world.train[0], id="long", question="Who " * 5000)
    expected = []
    for _ in range(2):
        again = replace(asking, failures=type(asking.failures)())
        traces = again.traces(world.program, [*world.train, long, replace(long, id="longer", question="Why " * 5000)])
        expected.append(again.failures.found)
    assert expected[0] == [Failed("asking", 5, 5, "LMInvalidRequestError")]
    assert expected[1] == expected[0]
    assert [trace.record is None for trace in traces] == [False] * 3 + [True] * 2
    assert [trace.retrievals for trace in traces] == [1, 1, 1, 0, 0]


@pytest.fixture
def closed_book(scripted, asking):
    """Answers closed book by a reply, and shows the engine."""

    def make(reply):
        lm, engine = scripted(reply)
        program = KEQA(None, examine=False)
        program.set_lm(lm)
        quiz = QuizRecord(index=1, text=CHOICE.question, resolved=CHOICE.question)
        one = Settled(quiz, CHOICE.answers, CHOICE.answer_type, CHOICE.choices)
        return lambda: ClosedBookAnswers(program, asking)(None, one), engine

    return make


@pytest.mark.parametrize(("answer", "score"), [("B", 1.0), ("Oslo", 0.0)])
def test_a_closed_book_answer_is_asked_for_once_and_scored_by_its_type(closed_book, asking, answer, score):
    ask, engine = closed_book(lambda *asked: {"answer": answer})
    assert [ask(), ask()] == [score, score]
    (asked,) = engine.asked("AnswerQuiz")
    assert (asked["quiz"], asked["answer_type"], json.loads(asked["choices"])) == (
        "Which is it?",
        "choice",
        ["Oslo", "Rome"],
    )
    assert asking.failures.found == []
    (line,) = kept_lines(asking)
    assert (":closed book:" in line["key"], line["value"]) == (True, {"answer": answer, "cause": None})


@pytest.mark.parametrize(
    ("error", "cause", "lasting"),
    [(InvalidRequestError("no"), "LMInvalidRequestError", True), (ServerError("down"), "LMServerError", False)],
)
def test_a_closed_book_call_that_fails_is_no_score_and_kept_unless_it_may_pass(
    closed_book, asking, error, cause, lasting
):
    def reply(*asked):
        raise error

    ask, engine = closed_book(reply)
    assert ask() is None
    calls = len(engine.calls)
    assert ask() is None
    assert (len(engine.calls) == calls) is lasting
    assert len(asking.journal) == lasting
    assert asking.failures.found == [Failed("answering closed book", 2, 2, cause)]
