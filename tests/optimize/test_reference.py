"""The utility reference on a scripted language model: the equation of section 3.4 and what failures do to it."""

import json
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy.lm15 import AuthError, ContextLengthError, ServerError

from keqa.data.example import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError, InputError, RetrievalError, TooManyFailuresError
from keqa.metrics.answers import f1
from keqa.optimize import reference as build
from keqa.optimize.asking import Asking
from keqa.optimize.failures import Failures
from keqa.programs import KEQA
from keqa.programs.calls.predictor import demonstration_digest
from keqa.programs.reference.entries import UtilityEntry


class Patient(Failures):
    """Counts failures and ends nothing by them: most tests have one question, and one failure is most of them."""

    def watch(self, step, total=None):
        return super().watch(step, 100)


def build_reference(program, train, *, journal=None, failures=None):
    """The entries; what is told of those that are not there."""
    return build.build_reference(program, train, Asking(journal, f1, in_flight=1, failures=failures or Patient()))


GOLD = "Pete Docter"
WHO = Example("who", "Who directed Up?", (GOLD,))
WHO_AT_ONCE = replace(WHO, one_hop=True)
BORN = Example(
    "born",
    "When was the director of Up born?",
    ("October 9, 1968", "1968"),
    quizzes=("Who directed Up?", "When was #1 born?"),
    quiz_answers=("Pete Docter", "October 9, 1968"),
)


class Answers:
    """A language model that answers by the passages it is given: a function of them, or an error to raise."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
        passages = json.loads(inputs["passages"]) if "passages" in inputs else []
        found = self.answer(passages, inputs.get("question") or inputs.get("quiz"))
        if isinstance(found, Exception):
            raise found
        return {"reasoning": "so", "answer": found} if name.startswith("Reason") else {"answer": found}


@pytest.fixture
def program(programmed, retriever):
    """Makes a program that searches these passages, and the engine behind it."""

    def make(answer: Any, *texts: str, found: Any = None, **settings: Any):
        return programmed(KEQA(retriever(*texts, found=found), **settings), Answers(answer))

    return make


def labels(entries):
    return [(entry.passage, entry.helpful) for entry in entries]


def seen(engine: Any, name: str) -> list[list[str]]:
    return [json.loads(inputs["passages"]) for inputs in engine.asked(name)]


def told(passages, question):
    return GOLD if passages else "x"


def lost(cause, count=1, of="who"):
    return f"{count} passages have no label, since a call failed with {cause}: of training questions {of}"


def test_helpful_passages_join_and_the_next_is_judged_beside_them(program):
    def answer(passages: list[str], question: str | None) -> str:
        if "wrong" in passages:
            return "Brad Bird"
        # The first name comes from one passage, the surname from the other.
        names = [part for part in ("Pete", "Docter") if part in passages]
        return " ".join(names) or "unknown"

    # A passage that is in the corpus twice is tried once.
    built, engine = program(answer, "idle", "Pete", "wrong", "idle", "Docter", "more")
    entries, problems = build_reference(built, [WHO])
    assert seen(engine, "ReasonWithKnowledge") == [
        ["idle"],
        ["Pete"],
        ["Pete", "wrong"],
        ["Pete", "Docter"],
        ["Pete", "Docter", "more"],
    ]
    assert engine.count == {"ReasonFromMemory": 1, "ReasonWithKnowledge": 5}
    assert labels(entries) == [("Pete", True), ("wrong", False), ("Docter", True)]
    assert entries[0] == UtilityEntry("who", "Who directed Up?", "Pete", True, question_digest(WHO.question))
    assert problems == []


@pytest.mark.parametrize(
    ("settings", "example"),
    [
        ({"decompose": False}, WHO),
        ({}, Example("who", "Who directed Up?", (GOLD,), quizzes=("Who directed Up?",), quiz_answers=(GOLD,))),
        ({}, WHO_AT_ONCE),
    ],
)
def test_of_one_hop_each_passage_is_tried_alone(program, settings, example):
    replies = {(): "Pete", ("good",): GOLD, ("bad",): "Brad Bird", ("idle",): "Pete"}
    built, engine = program(lambda passages, _: replies[tuple(passages)], "good", "bad", "idle", "good", **settings)
    assert labels(build_reference(built, [example])[0]) == [("good", True), ("bad", False)]
    assert sorted(seen(engine, "AnswerWithKnowledge")) == [["bad"], ["good"], ["idle"]]
    assert engine.count == {"AnswerQuiz": 1, "AnswerWithKnowledge": 3}


def test_gold_quizzes_are_labelled_with_gold_answers_in_the_places_of_references(program):
    found = {"Who directed Up?": [0, 2], "When was Pete Docter born?": [1, 2], BORN.question: [2]}

    def answer(passages: list[str], question: str | None) -> str:
        if question == "Who directed Up?":
            return GOLD if "film" in passages else "unknown"
        if question == "When was Pete Docter born?":
            return "1968" if "person" in passages else "2001" if "old" in passages else "October 9"
        return "unknown"

    built, engine = program(answer, "film", "person", "old", found=found)
    assert [(e.root, e.quiz, e.passage, e.helpful) for e in build_reference(built, [BORN])[0]] == [
        ("born", "Who directed Up?", "film", True),
        # "1968" is an alias of the question's answer, which this quiz asks for.
        ("born", "When was Pete Docter born?", "person", True),
        ("born", "When was Pete Docter born?", "old", False),
    ]
    assert all("#" not in inputs["quiz"] for inputs in engine.asked("AnswerQuiz"))
    assert engine.count["ReasonWithKnowledge"] == 1


def test_what_is_asked_and_kept_of_a_choice(program):
    built, engine = program(told, "one", decompose=False)
    choice = Example("c", "Which is it?", (GOLD,), "choice", ("x", GOLD))
    ((found,), _) = build_reference(built, [choice])
    assert found == UtilityEntry("c", "Which is it?", "one", True, question_digest(choice.question, choice.choices))
    (recalled,), (answered,) = engine.asked("AnswerQuiz"), engine.asked("AnswerWithKnowledge")
    assert recalled["quiz"] == answered["question"] == "Which is it?"
    assert recalled["answer_type"] == answered["answer_type"] == "choice"
    assert [json.loads(asked["choices"]) for asked in (recalled, answered)] == [["x", GOLD]] * 2
    assert (json.loads(answered["evidence"]), json.loads(answered["triples"])) == ([], [])


def test_no_demonstration_of_the_question_or_from_it_is_shown_while_it_is_labelled(program):
    built, engine = program(told, "Pete Docter made Up.", decompose=False)
    quiz, kind = built.examination.quiz, {"answer_type": "short", "choices": []}
    own = {"quiz": "Whose film is Up?", "answer": GOLD, **kind}
    other = {"quiz": "Who made Cars?", "answer": "John Lasseter", **kind}
    quiz.demos = [dspy.Example(**one) for one in (own, other, {"quiz": WHO.question, "answer": GOLD, **kind})]
    origins = {demonstration_digest(own, quiz.signature): [question_digest(WHO.question)]}
    built.learned = built.learned.and_from((), (), origins)
    assert labels(build_reference(built, [WHO])[0]) == [("Pete Docter made Up.", True)]
    assert [("John Lasseter" in prompt, prompt.count(GOLD)) for prompt in engine.prompts] == [(True, 0), (False, 1)]
    assert len(quiz.demos) == 3


@pytest.mark.parametrize("error", [ServerError("down"), ContextLengthError("too long"), None])
@pytest.mark.parametrize("asked", [WHO, WHO_AT_ONCE])
def test_a_call_that_fails_leaves_out_its_passage(program, asked, error):
    def answer(passages: list[str], question: str | None) -> Any:
        return (error or "") if passages[-1:] == ["bad"] else GOLD if "good" in passages else "x"

    built, _ = program(answer, "bad", "good", "bad too")
    entries, problems = build_reference(built, [asked])
    assert labels(entry for entry in entries if entry.passage != "bad too") == [("good", True)]
    named = {ServerError: "LMServerError", ContextLengthError: "ContextWindowExceededError"}
    assert problems == [lost(named.get(type(error), "EmptyAnswerError"))]


def test_what_gives_no_label_is_named(program):
    long = Example("long", "Who " * 20, ("x",))
    unknown = Example("none", "Who directed Cars?", ("John",))
    built, engine = program(told, "text", found={WHO.question: [0]}, max_question_chars=20)
    entries, (none, too_long) = build_reference(built, [unknown, long, WHO])
    assert none == "training question none: the question: no passage was found"
    assert too_long.startswith("training question long: ")
    assert "79 characters; at most 20" in too_long
    assert ([entry.root for entry in entries], len(engine.calls)) == (["who"], 2)
    silent, engine = program(lambda passages, _: GOLD if passages else ServerError("down"), "one", "two")
    entries, (problem, without) = build_reference(silent, [WHO])
    assert (entries, without) == ([], lost("LMServerError", 2))
    assert "who: the question: there is no answer without passages to compare with" in problem
    assert engine.count["ReasonWithKnowledge"] == 0
    deaf, _ = program(lambda passages, _: ServerError("down") if passages else "x", "one", "two")
    _, (problem, _) = build_reference(deaf, [WHO])
    assert "who: the question: there is no answer with any passage (LMServerError: " in problem


@pytest.mark.parametrize(("count", "named"), [(5, "q0, q1, q2, q3, q4"), (6, "q0, q1, q2, q3, q4 and 1 more")])
def test_five_questions_are_named_of_those_that_lack_labels(program, count, named):
    built, _ = program(lambda passages, _: ServerError("down") if passages == ["bad"] else GOLD, "bad", "good")
    asked = [Example(f"q{number}", f"Who directed Up, {number}?", (GOLD,)) for number in range(count)]
    assert build_reference(built, asked)[1] == [lost("LMServerError", count, named)]


def test_settings_that_cannot_work_are_refused_before_any_call(program):
    built, engine = program(told, "text")
    with pytest.raises(ConfigurationError, match="give the program a retriever"):
        build_reference(KEQA(None), [WHO])
    with pytest.raises(InputError, match=r"^example 2: there is no answer"):
        build_reference(built, [WHO, {"question": "Who?"}])
    assert len(engine.calls) == 0


def test_what_got_no_reply_is_asked_again_by_a_later_run_and_what_got_one_is_not(program, journal):
    down: list[Exception] = [ServerError("down")]

    def answer(passages: list[str], question: str | None) -> Any:
        if passages == ["bad"] and "Up" in str(question) and down:
            return down[0]
        return told(passages, question)

    built, engine = program(answer, "bad", "good")
    searching, cars = built.retriever, Example("cars", "Who directed Cars?", (GOLD,))
    searching.error = RetrievalError("the index is gone")
    _, (problem,) = build_reference(built, [WHO], journal=journal)
    assert "the search failed (RetrievalError: the index is gone)" in problem
    searching.error = None
    assert build_reference(built, [WHO, cars], journal=journal)[1] == [lost("LMServerError")]
    down.clear()
    before = len(engine.calls)
    assert build_reference(built, [WHO, cars], journal=journal)[1] == []
    assert {inputs["question"] for _, inputs, _ in engine.calls[before:]} == {WHO.question}
    assert len(engine.calls) - before <= 2
    # With another gold answer the same calls give other labels.
    before = len(engine.calls)
    assert build_reference(built, [replace(WHO, answers=("nobody",))], journal=journal) == ([], [])
    assert len(engine.calls) == before


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (AuthError("no such key"), ConfigurationError, "no such key"),
        (ServerError("down"), TooManyFailuresError, "labelling passages: 5 of 9 questions"),
    ],
)
def test_what_ends_the_building_keeps_what_was_made(program, journal, error, kind, message):
    def answer(passages, question):
        return error if away and question != "Question 0?" else told(passages, question)

    away = True
    built, engine = program(answer, "one", decompose=False)
    train = [Example(str(n), f"Question {n}?", (GOLD,)) for n in range(9)]
    with pytest.raises(kind, match=message):
        build_reference(built, train, journal=journal, failures=Failures())
    away, before = False, len(engine.calls)
    assert len(build_reference(built, train, journal=journal, failures=Failures())[0]) == 9
    assert "Question 0?" not in str(engine.calls[before:])
