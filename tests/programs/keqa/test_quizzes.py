"""Lists of quizzes as language models write them: broken references, too many, none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures.director_of_up import QUESTION, QUIZZES, World, causes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.data.quiz_references import references


def broken(ask, quizzes: str, **replies: Any):
    return ask(world=World(DecomposeQuestion={"quizzes": quizzes}, **replies))


@pytest.mark.parametrize(
    ("quizzes", "cause", "sources"),
    [
        ('["Who directed Up?", "When was #2 born?"]', "SelfReference", ["skipped", "blocked"]),
        ('["Who directed Up?", "When was #7 born?"]', "MissingReference", ["skipped", "blocked"]),
        ('["Who is #2?", "Who is #1?", "Who directed Up?"]', "ReferenceCycle", ["blocked", "blocked", "skipped"]),
        ('["When was #10 born?"]', "MissingReference", ["blocked"]),
    ],
)
def test_a_broken_reference_has_the_question_answered_with_retrieval(ask, quizzes, cause, sources):
    prediction, engine = broken(ask, quizzes)
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == sources
    assert (record.answer, record.answer_source) == ("October 9, 1968", "fallback")
    assert record.fallback.resolved == QUESTION
    assert cause in [d.cause for d in record.degradations]
    assert engine.count["AnswerQuiz"] == engine.count["Summarize"] == 0


def test_a_reference_to_a_later_quiz_changes_the_order(ask):
    prediction, _ = broken(ask, '["When was #2 born?", "Who directed Up?"]')
    assert causes(prediction.record) == [("references", 1, "LaterReference")]
    assert prediction.record.quizzes[0].resolved == "When was Pete Docter born?"
    assert prediction.record.answer_source == "summary"


def test_a_quiz_whose_reference_has_no_answer_is_blocked(ask):
    prediction, _ = broken(
        ask,
        QUIZZES,
        AnswerQuiz={"answer": "unknown"},
        AnswerWithKnowledge=lambda i, c: {"answer": "unknown" if "directed" in i["question"] else "1968"},
    )
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["passages", "blocked"]
    assert ("references", 2, "Unanswered") in causes(record)
    assert (record.answer, record.answer_source) == ("1968", "fallback")


def test_an_overlong_list_is_cut(ask):
    quizzes = json.dumps([f"Who directed film {i}?" for i in range(12)])
    prediction, _ = broken(ask, quizzes)
    assert len(prediction.record.quizzes) == 8
    assert causes(prediction.record) == [("decompose", None, "TooManyQuizzes")]


@pytest.mark.parametrize("quizzes", ["[]", '["", " "]'])
def test_an_empty_list_leaves_the_question_as_quiz(ask, quizzes):
    prediction, _ = broken(ask, quizzes)
    assert [quiz.text for quiz in prediction.record.quizzes] == [QUESTION]
    assert causes(prediction.record) == [("decompose", None, "EmptyDecomposition")]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    quizzes=st.lists(
        st.lists(st.sampled_from(["Who is ", "#1", "#2", "#3", "#12", "＃2", "# 1", "?"]), max_size=3).map("".join),
        max_size=4,
    ),
    silent=st.booleans(),
)
@pytest.mark.slow
def test_a_placeholder_never_reaches_a_language_model(ask, quizzes, silent):
    world = World(
        DecomposeQuestion={"quizzes": json.dumps(quizzes)},
        AnswerQuiz=lambda i, c: {"answer": "unknown" if silent and "1" in i["quiz"] else "Ann"},
    )
    prediction, engine = ask("Who directed Up?", world)
    assert prediction.answer
    for name, inputs, _ in engine.calls:
        for value in inputs.values():
            assert references(value) == (), (name, inputs)
