"""How far a question is taken: from memory, by one reading, or apart; what that asks, and what the record says."""

from __future__ import annotations

import json

import pytest

import keqa
from keqa.errors import ConfigurationError
from keqa.programs.fingerprint import program_fingerprint
from keqa.programs.keqa import KEQA
from keqa.programs.program import UnansweredError
from keqa.programs.records import QuestionRecord

QUESTION = "Where was the author of The Grey Harbour born?"
PLAN = ["Who wrote The Grey Harbour?", "Where was #1 born?"]
TEXTS = ("The Grey Harbour is a novel by Ann Ok, born in Bergen.", "It rains in Oslo.")
PAPERS = {"listwise": True, "tries": 1}


def replies(plan=PLAN, memory="Oslo", helpful=(True, False), summary="Bergen"):
    """A language model whose memory says Oslo and whose reading of the first passage says Bergen."""

    def reply(name, inputs, config):
        match name:
            case "DecomposeQuestion":
                return {"quizzes": json.dumps(plan)}
            case "AnswerQuiz" | "AnswerQuizIfSure":
                return {"answer": memory}
            case "JudgeUtilities":
                return {"helpful": json.dumps({number: said for number, said in enumerate(helpful, 1)})}
            case "AnswerWithKnowledge" | "AnswerFromDocuments":
                return {"answer": "Ann Ok" if "Who" in inputs["question"] else "Bergen"}
            case "Summarize":
                return {"explanation": "So.", "answer": summary}
        raise AssertionError(name)

    return reply


@pytest.fixture
def made(scripted, retriever):
    """Makes a program, and gives its engine and its retriever with it."""

    def make(own=False, probability=None, said=None, **settings):
        lm, engine = scripted(said or replies())
        engine.probability = probability
        searched = retriever(*TEXTS)
        searched.own_documents = own
        return KEQA(searched, lms=keqa.build_roles(lm), **PAPERS, **settings), engine, searched

    return make


@pytest.mark.parametrize(
    ("settle", "calls", "searches", "answer", "source"),
    [
        ("draft", {"AnswerQuiz": 1}, 0, "Oslo", "memory"),
        ("reading", {"JudgeUtilities": 1, "AnswerWithKnowledge": 1}, 1, "Bergen", "passages"),
        ("quizzes", {"DecomposeQuestion": 1, "AnswerQuiz": 2, "Summarize": 1}, 0, "Bergen", "summary"),
    ],
)
def test_a_question_is_settled_in_the_way_that_is_set(made, settle, calls, searches, answer, source):
    program, engine, searched = made(settle=settle)
    record = program(QUESTION).record
    assert engine.count == calls
    assert len(searched.queries) == record.cost.retrievals == searches
    assert (record.answer, record.answer_source, record.settled_by) == (answer, source, settle)
    if settle != "quizzes":
        assert [(quiz.index, quiz.resolved, quiz.answer) for quiz in record.quizzes] == [(1, QUESTION, answer)]


def test_a_reading_cites_where_that_is_on(scripted, retriever):
    lm, engine = scripted(lambda name, inputs, config: {"citations": "[1]", "answer": "Bergen"})
    program = KEQA(retriever(*TEXTS), lms=keqa.build_roles(lm), settle="reading", cite=True)
    found = program(QUESTION)
    assert engine.count == {"AnswerAndCite": 1}
    assert (found.answer, [source["text"] for source in found.sources]) == ("Bergen", [TEXTS[0]])


def test_a_draft_has_its_probability_where_the_language_model_gives_one(made):
    [quiz] = made(settle="draft", probability=0.5)[0](QUESTION).record.quizzes
    assert quiz.certainty == quiz.samples[0].probability == pytest.approx(0.5)


def test_over_documents_of_ones_own_memory_is_no_answer(made):
    program, engine, searched = made(settle="draft", own=True)
    record = program(QUESTION).record
    assert (record.answer, record.settled_by, len(searched.queries)) == ("Bergen", "reading", 1)
    assert not engine.asked("AnswerQuiz") + engine.asked("AnswerQuizIfSure")


def test_a_draft_that_fails_is_no_answer(made):
    program, _, _ = made(settle="draft", said=lambda name, inputs, config: "")
    with pytest.raises(UnansweredError) as failed:
        program(QUESTION)
    assert failed.value.record.settled_by is None


def test_a_way_is_saved_and_is_part_of_what_an_answer_depends_on(made, tmp_path):
    program, _, searched = made(settle="reading")
    keqa.save(program, tmp_path / "program")
    assert keqa.load(tmp_path / "program", searched).settle == "reading"
    other = made()[0]
    assert program_fingerprint(program) != program_fingerprint(other)
    with pytest.raises(ConfigurationError, match="settle must be"):
        other.settle = "guess"


def test_a_record_of_before_says_nothing_of_it():
    assert QuestionRecord.model_validate_json('{"question": "Who?"}').settled_by is None
