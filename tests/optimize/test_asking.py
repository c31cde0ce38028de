"""Questions of a step, also as DSPy's optimizers ask them: their scores, what is asked again, and what fails."""

import re
from contextlib import nullcontext

import dspy
import pytest
from dspy.lm15 import AuthError, ServerError
from fixtures.town import Town

from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError, InputError, StageError, StorageError, TooManyFailuresError
from keqa.lms import Roles
from keqa.metrics.answers import f1
from keqa.optimize.asking import Asking, Origins, Spending, lms_of, silent
from keqa.optimize.dspy_optimizers import Student
from keqa.optimize.failures import Failed, Failures, passing_cause
from keqa.optimize.scoring import example_for_metrics
from keqa.programs.keqa import KEQA
from keqa.programs.records import CallCost, Degradation, Failure, QuestionRecord
from keqa.programs.reference.entries import UtilityEntry
from keqa.programs.reference.utility_reference import UtilityReference
from keqa.storage.journal import Journal

CHOICE = Example("c", "Which is it?", ("Rome",), "choice", ("Oslo", "Rome"))
TRUE = Example("y", "Is it so?", ("yes",), "yes/no")
DOWN = "LMServerError"


def asked(world, journal, **options):
    return Asking(journal, f1, **options).traces(world.program, world.train)


def test_no_call_is_made_twice_by_whichever_run(setting, journal, tmp_path):
    world, told = setting(train=3), []
    first = asked(world, journal, progress=lambda *step: told.append(step))
    calls = len(world.engine.calls)
    journal.close()
    with Journal.open(tmp_path / "journal", {}) as again:
        second = asked(world, again)
        assert [(one.score, one.steps) for one in second] == [(one.score, one.steps) for one in first]
        assert len(world.engine.calls) == calls
        # Another program shares what it asks alike.
        world.program.summarizing.summarize.demos = [dspy.Example(question="q", answered_quizzes=["q a"], answer="a")]
        asked(world, again)
    assert {name for name, *_ in world.engine.calls[calls:]} == {"Summarize"}
    assert [trace.record.answer for trace in first] == ["Spouse0", "Spouse1", "Spouse2"]
    assert [trace.record.cost.retrievals for trace in first] == [1, 1, 1]
    assert told == [("asking", done, 3) for done in range(4)]


def test_a_question_never_sees_what_comes_from_it(setting, journal):
    world = setting(train=2, val=0)
    entries = [
        UtilityEntry(one.id, "q", f"passage of {one.id}", True, question_digest(one.question)) for one in world.train
    ]
    world.program.picking.reference = UtilityReference().fit(entries)
    asking, quiz = Asking(journal, f1, in_flight=1), world.program.examination.quiz
    for one in world.train:
        demo = {"quiz": f"demo of {one.id}", "answer_type": "short", "choices": [], "answer": "x"}
        asking.origins.add(quiz.signature, demo, one)
        quiz.demos.append(dspy.Example(**demo, augmented=True))
    world.program.learned = asking.origins.known_to(world.program).and_from(world.train, [])
    asking.traces(world.program, world.train)
    shown = [prompt for prompt in world.engine.prompts if re.search("(passage|demo) of t", prompt)]
    assert {prompt.partition(" of t")[0][-4:] for prompt in shown} == {"sage", "demo"}
    for prompt in shown:
        own, other = ("t0", "t1") if re.search("(Town|Mayor)0", prompt) else ("t1", "t0")
        assert f"of {other}" in prompt
        assert f"of {own}" not in prompt


def test_where_demonstrations_come_from_is_known_by_what_they_show():
    program, origins = KEQA(None), Origins()
    answer, quiz = program.answering.answer, program.examination.quiz
    answer.demos = [dspy.Example(question="Whose?", answer="own"), dspy.Example(question="Whose?", answer="lost")]
    quiz.demos = [dspy.Example(id="c", quiz="Whole?", answer="x")]
    origins.add(answer.signature, {"question": "Whose?", "answer": "own"}, TRUE)
    program.learned = program.learned.and_from([CHOICE], [])
    found = origins.known_to(program)
    hidden = {
        one.id: [demo["answer"] for p in (answer, quiz) for demo in p.demos if found.hides(*asked, demo, p.signature)]
        for one in (TRUE, CHOICE)
        for asked in [(one.question, one.choices)]
    }
    # DSPy's optimizers take whole training examples as they are.
    assert hidden == {"y": ["own"], "c": ["x"]}


def test_a_failure_that_may_pass_is_asked_again_and_the_calls_that_succeeded_are_not(setting, journal):
    world, failures = setting(train=3, top_k=1), Failures()
    reply = world.fail(ServerError("down"), lambda name, inputs: "Town2" in inputs)
    trace = asked(world, journal, failures=failures)[2]
    assert (trace.record, trace.score) == (None, 0.0)
    assert "failed" in str(trace.error)
    assert failures.found == [Failed("asking", 3, 1, DOWN)]
    world.engine.reply, calls = reply, len(world.engine.calls)
    assert asked(world, journal)[2].score > 0
    assert {inputs["question"] for name, inputs, _ in world.engine.calls[calls:] if "question" in inputs} == {
        world.train[2].question,
        "To whom is Mayor2 married?",
    }


@pytest.mark.parametrize("does", [{"refuses": "Summarize"}, {"fails": "Summarize"}])
def test_a_failure_that_would_not_pass_is_kept_as_it_is(setting, journal, tmp_path, does):
    world = setting(Town(**does), train=1)
    (first,) = asked(world, journal)
    assert first.record.failure or first.record.degradations
    calls = len(world.engine.calls)
    journal.close()
    with Journal.open(tmp_path / "journal", {}) as again:
        (second,) = asked(world, again)
    assert (second.record.failure, second.score) == (first.record.failure, first.score)
    assert len(world.engine.calls) == calls
    assert [one.message for one in second.record.degradations] == [one.message for one in first.record.degradations]


def test_a_server_that_is_down_ends_a_step_and_what_was_answered_is_kept(setting, journal):
    world = setting(train=9)
    first = ("Town0", "Mayor0", "Spouse0")
    reply = world.fail(ServerError("down"), lambda name, inputs: not any(named in inputs for named in first))
    with pytest.raises(TooManyFailuresError, match=r"asking: 5 of 9 questions .*LMServerError.*the same command"):
        asked(world, journal, in_flight=1)
    world.engine.reply, calls = reply, len(world.engine.calls)
    assert asked(world, journal)[0].score > 0
    assert not any(name in str(inputs) for _, inputs, _ in world.engine.calls[calls:] for name in first)
    # Of what was not answered by then nearly all fail, though that is less than half of all.
    world.train.append(replace_town(world.train[0], 9))
    world.train += [replace_town(world.train[0], number) for number in (10, 11)]
    world.fail(ServerError("down"))
    with pytest.raises(TooManyFailuresError, match=r"asking: 3 of 12 questions"):
        asked(world, journal)


def replace_town(example, number):
    return Example(f"t{number}", example.question.replace("Town0", f"Town{number}"), (f"Ann Spouse{number}",))


def test_what_no_question_escapes_ends_a_step(setting, journal, monkeypatch):
    def full(*arguments, **options):
        raise StorageError("the disk is full")

    monkeypatch.setattr("keqa.storage.journal.SqliteStore.put", full)
    with pytest.raises(InputError, match="the disk is full"):
        asked(setting(train=3), journal, in_flight=1)


def test_a_forged_call_is_refused(setting, journal, tmp_path):
    world = setting(train=1)
    asked(world, journal)
    for key in journal:
        journal.put(key, {"said": "x"})
    journal.close()
    with Journal.open(tmp_path / "journal", {}) as forged, pytest.raises(StorageError, match="the journal is damaged"):
        asked(world, forged)


def test_a_kill_loses_no_more_than_the_last_requests_of_what_was_spent(journal, tmp_path):
    def cost(calls):
        return CallCost(calls=calls, prompt_tokens=10 * calls, completion_tokens=3 * calls)

    spending, used = Spending(journal), {"prompt_tokens": 10, "completion_tokens": 3}
    for _ in range(120):
        spending.add_usage("lm", used)
    assert spending.spent == cost(120)
    # Nothing was kept at the end, as where the process is killed.
    assert Spending(journal).earlier == cost(100)
    with Spending(journal).counting() as again:
        dspy.settings.usage_tracker.add_usage("lm", used)
        again.add_failed()
    assert Spending(journal).earlier == CallCost(calls=102, prompt_tokens=1010, completion_tokens=303)
    # Who counts what is asked without says it as well.
    with dspy.track_usage() as outside, Spending(journal).counting() as within:
        within.add_usage("lm", used)
    assert outside.get_total_tokens() == {"lm": used}
    journal.put("spent", {"calls": "many"})
    with pytest.raises(StorageError, match=r"damaged at .*calls: Input"):
        Spending(journal)


# Failures.


def record(failed=None, degraded=(), harmless=False):
    failure = None if failed is None else Failure(stage="answer", cause=failed, message="why")
    degradations = [
        Degradation(stage="retrieve", cause=one, message="where", action="left out", harmless=harmless)
        for one in degraded
    ]
    return QuestionRecord(question="Who?", failure=failure, degradations=degradations)


@pytest.mark.parametrize(
    ("found", "error", "cause"),
    [
        (record(), None, None),
        (record(DOWN), None, f"{DOWN}: why"),
        (record("LMInvalidRequestError"), None, None),
        (record("LMInvalidRequestError", [DOWN]), None, f"{DOWN}: where"),
        # What another attempt mended.
        (record(degraded=[DOWN], harmless=True), None, None),
        (None, StageError("answer", DOWN, "down"), f"{DOWN}: down"),
        (None, StageError("answer", "LMInvalidRequestError", "no"), None),
        (None, ValueError("no"), None),
        (record(DOWN), ValueError("no"), f"{DOWN}: why"),
    ],
)
def test_what_may_fare_better_next_time(found, error, cause):
    assert passing_cause(found, error) == cause


@pytest.mark.parametrize(
    ("total", "kept", "bad", "ends"),
    [
        # More than half of a step; in the end also of what no earlier run had answered, where that is over two.
        (4, 0, 2, False),
        (4, 0, 3, True),
        (1, 0, 1, True),
        (10, 6, 2, False),
        (10, 5, 3, True),
        (10, 4, 3, False),
        (10, 8, 2, False),
        # So many in succession where its length is not known.
        (None, 0, 7, False),
        (None, 0, 8, True),
    ],
)
def test_most_failures_of_a_step_end_it(total, kept, bad, ends):
    watch = Failures().watch("asking", total)
    given, taken = range(total or bad + 2), []

    def count(item):
        watch.count(*((DOWN, f"{DOWN}: down") if item < bad else (None, None)), fresh=item < len(given) - kept)

    told = rf"^asking: {bad} of {total or bad} questions could not .*\({DOWN}: down\)\. "
    with pytest.raises(TooManyFailuresError, match=told) if ends else nullcontext():
        watch.each(given, taken.append, lambda _: count(taken[-1]), 1)
    assert taken == list(given[:bad] if ends and not kept else given)


def test_what_may_not_pass_ends_nothing_and_an_answer_begins_the_count_anew():
    failures = Failures()
    watch = failures.watch("asking", 4)
    for _ in range(4):
        watch.count("LMInvalidRequestError")
    watch.refuse()
    assert failures.found == [Failed("asking", 4, 4, "LMInvalidRequestError")]
    watch = failures.watch("asking")
    for _ in range(7):
        watch.outcome(DOWN, "down")
    watch.outcome(None)
    for _ in range(7):
        watch.outcome(DOWN, "down")
    with pytest.raises(TooManyFailuresError, match=r"^asking: 15 of 16 questions"):
        watch.outcome(DOWN, "down")
    assert failures.found == [Failed("asking", 20, 19, DOWN)]


# As DSPy's optimizers ask.


@pytest.fixture
def student(journal):
    """Wraps the program of a world, of which the answer and the quiz may change."""

    def make(world, name="gepa", told=silent):
        asking = Asking(journal, f1, in_flight=1, progress=told)
        return Student(world.program, asking, ["answering.answer", "examination.quiz"], name, 4), asking

    return make


def ask(student, example):
    return student(**example_for_metrics(example).inputs())


def test_a_student_replays_what_it_was_asked_and_shows_no_question_its_own_calls(setting, student):
    world, done = setting(train=2), []
    wrapped, asking = student(world, told=lambda *step: done.append((*step, len(world.engine.calls))))
    wrapped.program.learned = wrapped.program.learned.and_from(world.train, [])
    with dspy.context(trace=[]):
        predictions = [ask(wrapped, world.train[0]) for _ in range(2)]
        trace = [(id(p), inputs, dict(outputs)) for p, inputs, outputs in dspy.settings.trace]
    assert done == [("gepa", asked, 4, len(world.engine.calls)) for asked in (1, 2)]
    for prediction in predictions:
        assert (prediction.answer, prediction.explanation) == ("Spouse0", "It follows.")
        assert prediction.record.question == world.train[0].question
    assert [name for name, _ in wrapped.named_predictors()] == ["program.examination.quiz", "program.answering.answer"]
    assert {predictor for predictor, _, _ in trace} == {id(predictor) for _, predictor in wrapped.named_predictors()}
    assert trace[: len(trace) // 2] == trace[len(trace) // 2 :]
    # What its own calls may become is not shown to it.
    demo = next({**inputs, **outputs} for _, inputs, outputs in trace if "quiz" in inputs)
    wrapped.program.examination.quiz.demos = [dspy.Example(**demo)]
    for one in world.train:
        ask(wrapped, one)
    shown = {
        (inputs["quiz"], prompt.count(demo["quiz"]))
        for (name, inputs, _), prompt in zip(world.engine.calls, world.engine.prompts, strict=True)
        if name == "AnswerQuiz" and "governs" in inputs["quiz"]
    }
    assert shown == {("Who governs Town0?", 1), ("Who governs Town1?", 1)}
    assert asking.failures.found == []


def test_a_question_without_an_answer_is_a_prediction_without_one(setting, student):
    world = setting(Town(refuses="Summarize"), train=1)
    wrapped, asking = student(world, "simba")
    for _ in range(2):
        prediction = ask(wrapped, world.train[0])
        assert (prediction.answer, prediction.record.failure.cause) == (None, "LMInvalidRequestError")
    assert asking.failures.found == [Failed("simba", 2, 2, "LMInvalidRequestError")]
    unasked = wrapped("x", "Who " * 5000)
    assert (unasked.answer, unasked.explanation, unasked.sources, unasked.record) == (None, "", [], None)


def test_what_no_question_escapes_is_raised_without_a_further_call_and_in_the_end(setting, student):
    world = setting(train=2)
    wrapped, _ = student(world)
    world.fail(AuthError("no such key"))
    with pytest.raises(ConfigurationError, match="no such key") as first, wrapped.surfacing():
        ask(wrapped, world.train[0])
    calls = len(world.engine.calls)
    with pytest.raises(ConfigurationError) as second:
        ask(wrapped, world.train[1])
    assert len(world.engine.calls) == calls
    # The optimizer took it for a wrong answer, or for a reason to fail in its own way.
    with pytest.raises(ConfigurationError) as third, wrapped.surfacing():
        pass
    with pytest.raises(ConfigurationError) as fourth, wrapped.surfacing():
        raise ValueError("too many errors")
    assert first.value is second.value is third.value is fourth.value


def test_each_role_draws_as_the_optimizer_wants_on_its_own_model(setting, student):
    world = setting(train=1)
    roles = Roles(world.lm, world.lm.copy(), world.lm.copy(max_tokens=99), world.lm.copy())
    world.program.bind_lms(None)
    world.program.picking.judge.set_lm(roles.utility)
    with dspy.context(lm=world.lm):
        assert lms_of(world.program) == Roles(world.lm, world.lm, roles.utility)
    world.program.bind_lms(roles)
    assert lms_of(world.program) == roles
    wrapped, _ = student(world)
    assert wrapped.get_lm() is world.lm
    first = ask(wrapped, world.train[0])
    calls = len(world.engine.calls)
    wrapped.set_lm(world.lm.copy(temperature=0.9, rollout_id=3, max_tokens=7))
    answering, judge = wrapped.program.answering.answer.lm, wrapped.program.picking.judge.lm
    assert (answering.kwargs["temperature"], answering.kwargs["rollout_id"]) == (0.9, 3)
    assert (answering.kwargs["max_tokens"], judge.kwargs["max_tokens"]) == (256, 99)
    assert judge.kwargs["temperature"] == 0.9
    # Drawn in another way it is asked anew, and once.
    for _ in range(2):
        assert ask(wrapped, world.train[0]).answer == first.answer
        assert len(world.engine.calls) == 2 * calls
    assert roles.task.kwargs["temperature"] == 0.0
