"""What is summarized, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures.director_of_up import QUESTION, World

SINGLE = json.dumps([QUESTION])


@pytest.mark.parametrize(
    ("settings", "answer", "source", "summaries"),
    [
        ({}, "October 9, 1968", "passages", 0),
        ({"summarize_single": True}, "1968", "summary", 1),
        ({"summarize_single": True, "decompose": False}, "October 9, 1968", "passages", 0),
    ],
)
def test_whether_a_question_that_is_its_own_quiz_is_summarized_is_a_setting(ask, settings, answer, source, summaries):
    prediction, engine = ask(world=World(DecomposeQuestion={"quizzes": SINGLE}), **settings)
    assert (prediction.answer, prediction.record.answer_source) == (answer, source)
    assert engine.count["Summarize"] == summaries
    assert prediction.record.fallback is None


def test_a_single_quiz_whose_summary_cannot_be_used_keeps_its_own_answer(ask):
    world = World(DecomposeQuestion={"quizzes": SINGLE}, Summarize="garbage")
    record = ask(world=world, summarize_single=True)[0].record
    assert (record.answer, record.answer_source, record.fallback) == ("October 9, 1968", "passages", None)
    actions = [note.action for note in record.degradations if note.stage == "summarize"]
    assert actions[-1] == "took the quiz's answer for the answer"


def test_a_single_quiz_that_nothing_answers_is_not_summarized(ask):
    world = World(
        DecomposeQuestion={"quizzes": SINGLE},
        AnswerQuiz={"answer": "unknown"},
        AnswerWithKnowledge={"answer": "unknown"},
    )
    prediction, engine = ask(world=world, summarize_single=True)
    assert (prediction.answer, engine.count["Summarize"]) == ("unknown", 0)


BLOCKED = '["Who directed Up?", "Who directed Cars?", "When was #2 born?"]'


def half_known(**replies: Any) -> World:
    def from_memory(inputs, config):
        return {"answer": "Pete Docter" if "Up" in inputs["quiz"] else "unknown"}

    def from_passages(inputs, config):
        return {"answer": "unknown" if "Cars" in inputs["question"] else "October 9, 1968"}

    return World(
        DecomposeQuestion={"quizzes": BLOCKED}, AnswerQuiz=from_memory, AnswerWithKnowledge=from_passages, **replies
    )


def test_what_is_known_is_summarized_before_a_blocked_question_falls_back(ask):
    plain = ask(world=half_known())[0].record
    assert (plain.answer, plain.answer_source) == ("October 9, 1968", "fallback")
    prediction, engine = ask(world=half_known(), summarize_known=True)
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "passages", "blocked"]
    assert (record.answer, record.answer_source, record.fallback) == ("1968", "summary", None)
    assert json.loads(engine.asked("Summarize")[0]["answered_quizzes"]) == ["Who directed Up? Pete Docter"]
    notes = [(note.cause, note.action) for note in record.degradations if note.cause == "Unsettled"]
    assert notes == [("Unsettled", "summarized the quizzes that are answered")]


@pytest.mark.parametrize("said", [{"explanation": "", "answer": "unknown"}, "garbage"])
def test_a_question_that_the_known_does_not_settle_falls_back(ask, said):
    record = ask(world=half_known(Summarize=said), summarize_known=True)[0].record
    assert (record.answer, record.answer_source) == ("October 9, 1968", "fallback")
    assert [note.action for note in record.degradations if note.cause == "Unsettled"] == [
        "summarized the quizzes that are answered",
        "answered the question itself with retrieval",
    ]


def test_the_sound_quizzes_of_a_broken_list_are_asked_where_they_may_settle_it(ask):
    world = World(DecomposeQuestion={"quizzes": '["Who directed Up?", "When was #7 born?"]'})
    record = ask(world=world, summarize_known=True)[0].record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "blocked"]
    assert (record.answer, record.answer_source) == ("1968", "summary")


def test_a_quiz_that_failed_is_never_summarized_away(ask):
    world = half_known()
    world.replies["AnswerWithKnowledge"] = lambda i, c: "garbage" if "Cars" in i["question"] else {"answer": "x"}
    record = ask(world=world, summarize_known=True)[0].record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "failed", "blocked"]
    assert (record.answer, record.answer_source) == ("x", "fallback")
