"""Questions of one quiz, and where answer types, choices and traces go."""

from __future__ import annotations

import dspy
from fixtures.director_of_up import QUESTION, World

from keqa.programs import KEQA


def test_one_quiz_that_is_the_question_needs_no_summary(ask):
    world = World(DecomposeQuestion={"quizzes": '["who directed Up"]'})
    prediction, engine = ask("Who directed Up?", world)
    assert (prediction.answer, prediction.record.answer_source, prediction.explanation) == ("Pete Docter", "memory", "")
    assert engine.count == {"DecomposeQuestion": 1, "AnswerQuiz": 4}


def test_one_quiz_that_is_not_the_question_is_summarized(ask):
    prediction, engine = ask("Up's director?", World(DecomposeQuestion={"quizzes": '["Who directed Up?"]'}))
    assert engine.count["Summarize"] == 1
    assert prediction.record.answer_source == "summary"


def test_decompose_off_takes_the_question_for_the_quiz(ask):
    prediction, engine = ask("Who directed Up?", decompose=False)
    assert (prediction.answer, engine.count["DecomposeQuestion"]) == ("Pete Docter", 0)


def test_a_question_with_a_hash_of_its_own_is_no_reference(ask):
    prediction, _ = ask("Who directed the #1 film of 2009?", decompose=False)
    assert prediction.record.degradations == []


def test_answer_type_and_choices_travel_to_the_summary_and_not_to_quizzes(ask):
    _, engine = ask(call={"answer_type": "choice", "choices": ["1968", "1970"]})
    assert engine.asked("Summarize")[0]["answer_type"] == "choice"
    assert "1970" in engine.asked("Summarize")[0]["choices"]
    assert {inputs["answer_type"] for inputs in engine.asked("AnswerQuiz")} == {"short"}
    assert {inputs["answer_type"] for inputs in engine.asked("AnswerWithKnowledge")} == {"short"}


def test_answer_type_and_choices_travel_with_a_quiz_that_is_the_question(ask):
    choices = ["1968", "1970"]
    _, engine = ask("When?", decompose=False, call={"answer_type": "choice", "choices": choices})
    for name in ("AnswerQuiz", "AnswerWithKnowledge"):
        assert {inputs["answer_type"] for inputs in engine.asked(name)} == {"choice"}
        assert all("1970" in inputs["choices"] for inputs in engine.asked(name))


def test_traces_hold_complete_demonstrations(scripted, retriever):
    lm, _ = scripted(World())
    program = KEQA(retriever("born in 1968"), select=True)
    program.set_lm(lm)
    with dspy.context(trace=[]):
        program(question=QUESTION)
        trace = list(dspy.settings.trace)
    assert len(trace) == 19
    for predictor, inputs, _ in trace:
        assert set(predictor.signature.input_fields) == set(inputs)
