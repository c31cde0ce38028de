"""The utility reference on a scripted language model: the equation of section 3.4 and what failures do to it."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dspy
import pytest
from dspy.lm15 import AuthError, ContextLengthError, ServerError
from servers.openai_server import HTTPFault, OpenAIServer, markers

from keqa.data import Example
from keqa.data.question import question_digest
from keqa.errors import ConfigurationError, InputError, RetrievalError, TooManyFailuresError
from keqa.lms import build_lm
from keqa.metrics.answers import exact_match, f1
from keqa.optimize import reference as build
from keqa.optimize.asking import Asking, Origins
from keqa.optimize.failures import Failures
from keqa.optimize.journal_keys import example_key
from keqa.optimize.reference import Labeller, UtilityEntry
from keqa.programs import KEQA
from keqa.storage.journal import Journal


class Patient(Failures):
    """Counts failures and ends nothing by them: most tests have one question, and one failure is most of them."""

    def watch(self, step, total=None, asking=None):
        monitor = super().watch(step, total, asking)
        monitor._too_many = lambda: False
        return monitor


def build_reference(program, train, *, journal=None, correctness=f1, asking=None):
    """Builds the reference of a program, in a journal of its own where none is given."""
    with TemporaryDirectory() as folder, Journal.open(Path(folder) / "j", {}) as own:
        labeller = Labeller(program, correctness=correctness)
        options = {"failures": Patient()} | (asking or {})
        return build.build_reference(
            labeller, train, Asking(own if journal is None else journal, correctness, **options)
        )


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
def program(scripted, retriever):
    """Makes a program that searches these passages, and the engine behind it."""

    def make(answer: Any, *texts: str, found: Any = None, **settings: Any):
        lm, engine = scripted(Answers(answer))
        built = KEQA(retriever(*texts, found=found), **settings)
        built.set_lm(lm)
        return built, engine

    return make


def labels(entries: list[UtilityEntry]) -> list[tuple[str, bool, float]]:
    return [(entry.passage, entry.helpful, entry.gain) for entry in entries]


def seen(engine: Any, name: str) -> list[list[str]]:
    return [json.loads(inputs["passages"]) for inputs in engine.asked(name)]


def test_helpful_passages_join_and_the_next_is_judged_beside_them(program):
    def answer(passages: list[str], question: str | None) -> str:
        if "wrong" in passages:
            return "Brad Bird"
        # The first name comes from one passage, the surname from the other.
        names = [part for part in ("Pete", "Docter") if part in passages]
        return " ".join(names) or "unknown"

    built, engine = program(answer, "idle", "Pete", "wrong", "Docter", "more")
    entries = build_reference(built, [WHO])
    assert seen(engine, "ReasonWithKnowledge") == [
        ["idle"],
        ["Pete"],
        ["Pete", "wrong"],
        ["Pete", "Docter"],
        ["Pete", "Docter", "more"],
    ]
    assert engine.count == {"ReasonFromMemory": 1, "ReasonWithKnowledge": 5}
    assert labels(entries) == [
        ("Pete", True, pytest.approx(2 / 3)),
        ("wrong", False, pytest.approx(-2 / 3)),
        ("Docter", True, pytest.approx(1 / 3)),
    ]
    assert entries[0] == UtilityEntry(
        root="who",
        quiz="Who directed Up?",
        passage="Pete",
        passage_id="p1",
        helpful=True,
        gain=entries[0].gain,
        basis="question",
        question=question_digest(WHO.question),
    )
    (question,) = entries.questions
    assert (question.of_no_consequence, question.left_out, question.problems) == (2, 0, ())
    assert entries.counts() == {True: 2, False: 1}


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
    built, engine = program(lambda passages, question: replies[tuple(passages)], "good", "bad", "idle", **settings)
    entries = build_reference(built, [example])
    assert sorted(seen(engine, "AnswerWithKnowledge")) == [["bad"], ["good"], ["idle"]]
    assert engine.count == {"AnswerQuiz": 1, "AnswerWithKnowledge": 3}
    assert labels(entries) == [("good", True, pytest.approx(1 / 3)), ("bad", False, pytest.approx(-2 / 3))]


def test_gold_quizzes_are_labelled_with_gold_answers_in_the_places_of_references(program):
    found = {"Who directed Up?": [0, 2], "When was Pete Docter born?": [1, 2], BORN.question: [2]}

    def answer(passages: list[str], question: str | None) -> str:
        if question == "Who directed Up?":
            return GOLD if "film" in passages else "unknown"
        if question == "When was Pete Docter born?":
            return "1968" if "person" in passages else "2001" if "old" in passages else "October 9"
        return "unknown"

    built, engine = program(answer, "film", "person", "old", found=found)
    entries = build_reference(built, [BORN])
    assert [(e.root, e.basis, e.quiz, e.passage, e.helpful) for e in entries] == [
        ("born", "quiz", "Who directed Up?", "film", True),
        # "1968" is an alias of the question's answer, which this quiz asks for.
        ("born", "quiz", "When was Pete Docter born?", "person", True),
        ("born", "quiz", "When was Pete Docter born?", "old", False),
    ]
    assert all("#" not in inputs["quiz"] for inputs in engine.asked("AnswerQuiz"))
    assert engine.count["ReasonWithKnowledge"] == 1
    assert entries.questions[0].of_no_consequence == 2


def test_a_passage_that_is_in_the_corpus_twice_is_tried_once(program):
    built, engine = program(lambda passages, question: GOLD if passages else "x", "one", "two", "one")
    assert [entry.passage_id for entry in build_reference(built, [WHO_AT_ONCE])] == ["p0", "p1"]
    assert engine.count["AnswerWithKnowledge"] == 2


def test_no_demonstration_tells_the_answer_to_the_question_that_is_labelled(program):
    built, engine = program(lambda passages, _: GOLD if passages else "nobody", "Pete Docter made Up.", decompose=False)
    shown = {"answer_type": "short", "choices": []}
    other = dspy.Example(quiz="Who made Cars?", answer="John Lasseter", **shown)
    built.examination.quiz.demos = [dspy.Example(quiz=WHO.question, answer=GOLD, **shown), other]
    assert [entry.helpful for entry in build_reference(built, [WHO])] == [True]
    assert [("John Lasseter" in prompt, prompt.count(GOLD)) for prompt in engine.prompts] == [(True, 0), (False, 1)]
    assert len(built.examination.quiz.demos) == 2


def test_no_demonstration_that_comes_from_the_question_in_other_words_is_shown_while_it_is_labelled(program, tmp_path):
    built, engine = program(lambda passages, _: GOLD if passages else "nobody", "Pete Docter made Up.", decompose=False)
    shown = {"answer_type": "short", "choices": []}
    own = {"quiz": "Whose film is Up?", "answer": GOLD, **shown}
    other = {"quiz": "Who made Cars?", "answer": "John Lasseter", **shown}
    built.examination.quiz.demos = [dspy.Example(**own), dspy.Example(**other)]
    origins = Origins()
    for demo, one in ((own, WHO), (other, BORN)):
        origins.add(built.examination.quiz.signature, demo, one)
    with Journal.open(tmp_path / "j", {}) as journal:
        leaking = build_reference(built, [WHO], journal=journal)
        assert [GOLD in prompt for prompt in engine.prompts] == [True, True]
        engine.prompts.clear()
        # What was labelled with it is labelled anew, and kept.
        built.learned = origins.known_to(built)
        entries = build_reference(built, [WHO], journal=journal)
        assert [("John Lasseter" in prompt, GOLD in prompt) for prompt in engine.prompts] == [
            (True, False),
            (False, True),
        ]
        assert build_reference(built, [WHO], journal=journal) == entries == leaking
    assert len(engine.prompts) == 2


def test_a_question_without_passages_costs_nothing_and_is_named(program):
    built, engine = program(lambda passages, question: GOLD if passages else "x", "text", found={WHO.question: [0]})
    entries = build_reference(built, [Example("none", "Who directed Cars?", ("John",)), WHO])
    assert entries.problems == {"none": ("the question: no passage was found",)}
    assert [entry.root for entry in entries] == ["who"]
    assert len(engine.calls) == 2


def test_a_question_that_is_too_long_is_named(program):
    built, _ = program(lambda passages, question: GOLD if passages else "x", "text", max_question_chars=20)
    entries = build_reference(built, [Example("long", "Who " * 20, ("x",)), WHO])
    assert [entry.root for entry in entries] == ["who"]
    assert "79 characters; at most 20" in entries.problems["long"][0]


@pytest.mark.parametrize("error", [ServerError("down"), ContextLengthError("too long"), None])
@pytest.mark.parametrize("asked", [WHO, WHO_AT_ONCE])
def test_a_call_that_fails_leaves_out_its_passage(program, asked, error):
    def answer(passages: list[str], question: str | None) -> Any:
        return (error or "") if passages[-1:] == ["bad"] else GOLD if "good" in passages else "x"

    built, _ = program(answer, "bad", "good", "bad too")
    entries = build_reference(built, [asked])
    assert [(entry.passage, entry.helpful) for entry in entries if entry.passage != "bad too"] == [("good", True)]
    assert entries.left_out == 1
    named = {ServerError: "LMServerError", ContextLengthError: "ContextWindowExceededError"}
    assert entries.lost == {named.get(type(error), "EmptyAnswerError"): {"who": 1}}
    assert entries.problems == {}
    assert bool(entries.questions[0].passing) == isinstance(error, ServerError)


def test_without_an_answer_from_memory_there_is_nothing_to_compare_with(program):
    built, engine = program(lambda passages, question: GOLD if passages else ServerError("down"), "one", "two")
    entries = build_reference(built, [WHO])
    assert entries == []
    assert entries.left_out == 2
    assert entries.problems["who"][0].startswith("the question: there is no answer without passages to compare with")
    assert engine.count["ReasonWithKnowledge"] == 0


def test_a_failed_search_is_named_and_asked_again_later(program, tmp_path):
    built, engine = program(lambda passages, question: GOLD if passages else "x", "text")
    searching = built._retriever.value
    with Journal.open(tmp_path / "j", {}) as journal:
        searching.error = RetrievalError("the index is gone")
        entries = build_reference(built, [WHO], journal=journal)
        assert "the search failed (RetrievalError: the index is gone)" in entries.problems["who"][0]
        assert len(engine.calls) == 0
        searching.error = None
        assert len(build_reference(built, [WHO], journal=journal)) == 1


def test_what_got_no_reply_is_asked_again_by_a_later_run_and_what_got_one_is_not(program, tmp_path):
    down: list[Exception] = [ServerError("down")]

    def answer(passages: list[str], question: str | None) -> Any:
        if passages == ["bad"] and "Up" in str(question) and down:
            return down[0]
        return GOLD if passages else "x"

    built, engine = program(answer, "bad", "good")
    cars = Example("cars", "Who directed Cars?", (GOLD,))
    with Journal.open(tmp_path / "j", {}) as journal:
        first = build_reference(built, [WHO, cars], journal=journal)
        assert first.left_out == 1
        down.clear()
        before = len(engine.calls)
        second = build_reference(built, [WHO, cars], journal=journal)
    assert second.left_out == 0
    assert all(inputs["question"] == WHO.question for _, inputs, _ in engine.calls[before:])


def test_a_wrong_key_reaches_the_user_and_what_was_finished_stays(program, tmp_path):
    valid = True

    def answer(passages: list[str], question: str | None) -> Any:
        nonlocal valid
        valid = valid and question != "Question 3?"
        return (GOLD if passages else "x") if valid else AuthError("no such key")

    built, _ = program(answer, "text")
    train = [Example(str(n), f"Question {n}?", (GOLD,)) for n in range(6)]
    with Journal.open(tmp_path / "j", {}) as journal:
        with pytest.raises(ConfigurationError, match="no such key"):
            build_reference(built, train, journal=journal, asking={"in_flight": 1})
        assert len(journal) == 3


def test_settings_that_cannot_work_are_refused_before_any_call(program, scripted):
    built, engine = program(lambda passages, question: "x", "text")
    with pytest.raises(ConfigurationError, match="give the program a retriever"):
        build_reference(KEQA(None), [WHO])
    with pytest.raises(InputError, match=r"^example 2: there is no answer"):
        build_reference(built, [WHO, {"question": "Who?"}])
    assert len(engine.calls) == 0


def test_a_server_that_is_away_ends_the_building_and_keeps_what_was_labelled(program, tmp_path):
    def answer(passages, question):
        return ServerError("down") if question != "Question 0?" else GOLD if passages else "x"

    built, _ = program(answer, "one", decompose=False)
    train = [Example(str(n), f"Question {n}?", (GOLD,)) for n in range(9)]
    with Journal.open(tmp_path / "j", {}) as journal:
        with pytest.raises(TooManyFailuresError, match="labelling passages: 5 of 9 questions"):
            build_reference(built, train, journal=journal, asking={"in_flight": 1, "failures": Failures()})
        assert len(journal) == 1


def test_a_changed_answer_under_the_same_id_is_labelled_anew(program, tmp_path):
    built, engine = program(lambda passages, question: GOLD if passages else "x", "text")
    with Journal.open(tmp_path / "j", {}) as journal:
        assert len(build_reference(built, [WHO], journal=journal)) == 1
        assert build_reference(built, [Example("who", WHO.question, ("nobody",))], journal=journal) == []
    assert len(engine.calls) == 4


@pytest.mark.slow
def test_the_fingerprint_tells_what_labels_depend_on_and_no_secret(program):
    built, _ = program(lambda passages, question: "x", "text")
    lm = build_lm("openai/scripted", api_base="http://127.0.0.1:9/v1", api_key="sk-secret")
    built.set_lm(lm)
    plain = Labeller(built).fingerprint()
    assert "secret" not in json.dumps(plain)
    assert "127.0.0.1" not in json.dumps(plain)
    assert plain["model"]["model"] == "openai/scripted"
    assert Labeller(built).fingerprint() == plain
    fewer = Labeller(program(lambda passages, question: "x", "text", top_k=3)[0]).fingerprint()
    assert {**fewer, "top_k": 10, "model": plain["model"]} == plain != {**fewer, "model": plain["model"]}
    # Labels are of whole passages, whatever a program cuts them down to.
    shortened = Labeller(program(lambda passages, question: "x", "text", extract_sentences=2)[0]).fingerprint()
    assert {**shortened, "model": plain["model"]} == plain
    assert Labeller(built, correctness=exact_match).fingerprint() != plain
    built.answering.answer.demos = [dspy.Example(question="q", answer="a")]
    assert Labeller(built).fingerprint()["prompts"] != plain["prompts"]


def served(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
    """Answers that depend on nothing but the request."""
    text = str(messages[-1]["content"])
    number = int(re.findall(r"Question (\d+)", text)[-1])
    helped = "[[ ## passages ## ]]" in text and f"fact {number % 3}" in text
    return [markers(reasoning="so", answer=GOLD if helped else "Pete")] * n


@pytest.mark.slow
def test_killed_at_any_point_no_finished_question_is_asked_twice_and_the_result_is_the_same(retriever, tmp_path):
    train = [Example(str(n), f"Question {n}?", (GOLD,)) for n in range(5)]
    path = tmp_path / "journal"
    with OpenAIServer(served) as server:
        built = KEQA(retriever("fact 0", "fact 1", "fact 2"))
        built.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))

        def run() -> tuple[list[UtilityEntry], Counter[str]]:
            start = server.count
            with Journal.open(path, Labeller(built).fingerprint()) as journal:
                entries = build_reference(built, train, journal=journal, asking={"in_flight": 2})
            asked = (re.findall(r"Question (\d+)", str(c.messages[-1]["content"]))[-1] for c in server.calls[start:])
            return entries, Counter(asked)

        whole, asked = run()
        assert asked == {str(n): 4 for n in range(5)}
        assert len(whole) == 5
        with Journal.open(path, Labeller(built).fingerprint()) as journal:
            done = [(key, journal.get(key)) for key in journal]
        for count in range(len(done) + 1):
            path.unlink()
            with Journal.open(path, Labeller(built).fingerprint()) as journal:
                for key, value in done[:count]:
                    journal.put(key, value)
            kept = {key for key, _ in done[:count]}
            finished = {example.id for example in train if example_key(example) in kept}
            entries, asked = run()
            assert entries == whole
            assert asked == {example.id: 4 for example in train if example.id not in finished}


@pytest.mark.server
def test_a_request_that_is_refused_for_its_content_is_kept_as_left_out(retriever, tmp_path):
    def refusing(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        if "fact 1" in str(messages[-1]["content"]):
            raise HTTPFault(400, "the content is not allowed")
        return served(messages, n, body)

    with OpenAIServer(refusing) as server, Journal.open(tmp_path / "j", {}) as journal:
        built = KEQA(retriever("fact 0", "fact 1"))
        built.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        entries = build_reference(built, [Example("0", "Question 0?", (GOLD,))], journal=journal)
        assert (len(entries), entries.left_out, len(journal)) == (1, 1, 1)


def test_what_is_in_an_entry(program):
    built, engine = program(lambda passages, question: GOLD if passages else "x", "one", decompose=False)
    choice = Example("c", "Which is it?", (GOLD,), "choice", ("Brad Bird", GOLD))
    (found,) = build_reference(built, [choice])
    assert (found.root, found.quiz, found.gain, found.basis) == ("c", "Which is it?", 1.0, "question")
    (recalled,), (answered,) = engine.asked("AnswerQuiz"), engine.asked("AnswerWithKnowledge")
    assert recalled["quiz"] == answered["question"] == "Which is it?"
    assert recalled["answer_type"] == answered["answer_type"] == "choice"
    assert [json.loads(asked["choices"]) for asked in (recalled, answered)] == [["Brad Bird", GOLD]] * 2
    assert (json.loads(answered["evidence"]), json.loads(answered["triples"])) == ([], [])
