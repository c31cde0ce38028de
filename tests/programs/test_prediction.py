"""What a program returns: what DSPy can vote on, write, score and pass on, its sources, and a program as a tool."""

import asyncio
import copy
import json
import pickle

import pytest
from fixtures.replies import Replies

import keqa
from keqa.programs import KEQA, prediction
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.prediction import (
    AnswerPrediction,
    disagreements_of,
    observation,
    source_of,
    sources_of,
    with_supporting_sentences,
)
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord
from keqa.programs.stage import RecordBuilder
from keqa.programs.stages.documents import contradicting
from keqa.signatures.keqa import TOOL_DESCRIPTION, TOOL_QUESTION

reply = Replies(
    DecomposeQuestion={"quizzes": '["Who is it?", "Where does #1 live?"]'},
    AnswerQuiz=lambda i, c: {"answer": f"a{c.seed}" if "live" in i["quiz"] else "Ann"},
    JudgeConsistency={"same": False},
    JudgeUtility=lambda i, c: {"helpful": "Bergen" in i["passage"]},
    Summarize={"explanation": "so", "answer": "Bergen"},
    AnswerWithKnowledge={"answer": "Bergen"},
    AnswerQuestion={"answer": "Oslo"},
)


@pytest.fixture
def program(programmed, retriever):
    program, _ = programmed(KEQA(retriever("Ann lives in Bergen.", "Bo lives in Oslo.")), reply)
    return program


SOURCE = {"title": "", "passage_id": "p0", "text": "Ann lives in Bergen.", "sentences": ["Ann lives in Bergen."]}


def test_fields_are_plain_and_the_record_is_an_attribute(program):
    prediction = program(question="Where does she live?")
    assert prediction.keys() == ["explanation", "sources", "answer"]
    assert dict(prediction) == {"explanation": "so", "sources": [SOURCE], "answer": "Bergen"}
    assert json.loads(json.dumps(dict(prediction))) == dict(prediction)
    assert isinstance(prediction.record, QuestionRecord)
    assert [quiz.source for quiz in prediction.record.quizzes] == ["memory", "passages"]
    assert "record" not in prediction
    assert "QuestionRecord" not in repr(prediction)


def test_the_record_survives_copies(program):
    prediction = program(question="Where does she live?")
    for copied in (
        copy.deepcopy(prediction),
        pickle.loads(pickle.dumps(prediction)),
        prediction.copy(),
        prediction.copy(score=1.0),
    ):
        assert copied.record == prediction.record
        assert copied.answer == "Bergen"


def passage(name, text="Text.", *, kept=True, **place):
    return PassageVerdict(
        passage_id=name, title="Report", text=text, score=1, verdict="helpful", kept=kept, why="", **place
    )


def test_what_has_moved_is_found_where_it_was():
    # What the version before pickled, and what its docs/extending.md imported.
    written = b"ckeqa.programs.prediction\nUnansweredError\n(S'answer'\nS'Mute'\nS'no reply'\ntR."
    assert (type(pickle.loads(written)), pickle.loads(written).cause) == (keqa.UnansweredError, "Mute")
    assert prediction.RecordBuilder is RecordBuilder
    with pytest.raises(AttributeError, match="has no attribute 'Recorder'"):
        _ = prediction.Recorder


def test_the_sources_of_a_fallback_are_those_of_the_question_itself():
    quiz = QuizRecord(index=1, text="q", source="passages", passages=[passage("a"), passage("b", kept=False)])
    fallback = QuizRecord(index=0, text="q", source="passages", passages=[passage("c")])
    record = QuestionRecord(question="q", quizzes=[quiz, quiz], fallback=fallback, answer="x", answer_source="fallback")
    assert [one.id for one in sources_of(record)] == ["c"]
    summary = record.model_copy(update={"fallback": None, "answer_source": "summary"})
    assert [one.id for one in sources_of(summary)] == ["a"]
    failed = record.model_copy(update={"answer": None, "answer_source": "failed"})
    assert sources_of(failed) == []


OLD = passage("a/r.pdf#1", "The mayor of Carmouth is Ann Lee.", file="a/r.pdf", page=3, heading="Town", date="2019")
NEW = passage("b/r.pdf#1", "Snow fell. The mayor of Carmouth is Bo Kim.", file="b/r.pdf", page=1)
UNKEPT = passage("c.txt#1", "The mayor of Carmouth is Cy Doe.", kept=False)
TEXT = "Who is the mayor of Carmouth?"
QUIZ = QuizRecord(index=1, text=TEXT, source="passages", answer="Ann Lee", passages=[OLD, NEW, UNKEPT])
RECORD = with_supporting_sentences(
    QuestionRecord(question="Who is it?", quizzes=[QUIZ], answer="Ann Lee", answer_source="summary")
)


def test_a_record_names_the_sentences_that_carried_an_answer():
    found = [one.sentences for one in RECORD.quizzes[0].passages]
    assert found == [["The mayor of Carmouth is Ann Lee."], ["The mayor of Carmouth is Bo Kim."], []]
    assert QuestionRecord.model_validate_json(RECORD.model_dump_json()) == RECORD


def test_the_sentence_with_the_answer_to_a_quiz_carries_it():
    told = passage("d.txt#1", "The mayor of Carmouth wears a chain. It was won by Ann Lee.")
    quiz = QUIZ.model_copy(update={"passages": [told]})
    record = with_supporting_sentences(RECORD.model_copy(update={"quizzes": [quiz], "fallback": quiz}))
    assert record.quizzes[0].passages[0].sentences == ["It was won by Ann Lee."]
    assert record.fallback.passages == record.quizzes[0].passages
    # A quiz from memory keeps its record; and what it was read from comes first.
    remembered = RECORD.model_copy(update={"quizzes": [QUIZ.model_copy(update={"source": "memory"})]})
    assert with_supporting_sentences(remembered) == remembered
    read = quiz.model_copy(update={"evidence": ["The mayor of Carmouth wears a chain."]})
    record = with_supporting_sentences(RECORD.model_copy(update={"quizzes": [read]}))
    assert record.quizzes[0].passages[0].sentences == read.evidence


def test_two_files_of_one_title_are_told_apart():
    first, second = sources_of(RECORD)
    assert first.label == "Report (a/r.pdf, page 3, Town)"
    assert second.label == "Report (b/r.pdf, page 1)"
    assert (first.quizzes, first.sentences, first.date) == ([1], ["The mayor of Carmouth is Ann Lee."], "2019")
    # One of no file is told by its id.
    source = source_of(passage("7"))
    assert (source.label, source.model_copy(update={"title": ""}).label) == ("Report (7)", "7")


def test_sources_that_disagree_are_named_once():
    (found,) = disagreements_of(RECORD)
    assert found == (
        "Sources may disagree: Report (a/r.pdf, page 3, Town), 2019 says “The mayor of Carmouth is Ann Lee.” and "
        "Report (b/r.pdf, page 1) says “The mayor of Carmouth is Bo Kim.”"
    )
    same = QUIZ.model_copy(update={"passages": [OLD, NEW.model_copy(update={"file": "a/r.pdf"})]})
    record = with_supporting_sentences(RECORD.model_copy(update={"quizzes": [same]}))
    assert disagreements_of(record) == []
    assert disagreements_of(RECORD.model_copy(update={"answer_source": "memory"})) == []


def test_sources_contradict_each_other_where_no_date_decides():
    newer = NEW.model_copy(update={"date": "2020"})
    assert contradicting(TEXT, [OLD, newer], None) == []
    first, second = "The mayor of Carmouth is Ann Lee.", "The mayor of Carmouth is Bo Kim."
    said = [f"“{first}” (Report (a/r.pdf, page 3, Town))", f"“{second}” (Report (b/r.pdf, page 1))"]
    assert contradicting(TEXT, [OLD, newer, NEW], None) == contradicting(TEXT, [OLD, NEW], "Ann Lee") == said


@pytest.fixture
def searching(programmed, retriever):
    program, _ = programmed(AlwaysRetrieve(retriever("Ann lives in Bergen.")), reply)
    return program


ANSWER = "Bergen\nSources:\n[1] Ann lives in Bergen."


def test_a_question_goes_in_and_a_short_answer_comes_out(searching):
    tool = searching.as_tool()
    assert (tool.name, list(tool.args), tool.args["question"]["type"]) == ("answer_question", ["question"], "string")
    assert tool(question="Where does Ann live?") == ANSWER
    assert asyncio.run(tool.acall(question="Where does Ann live?")) == ANSWER
    assert tool.func("Where does Ann live?") == ANSWER
    schema = tool.format_as_litellm_function_call()["function"]
    asked = {"type": "string", "description": TOOL_QUESTION}
    assert schema == {
        "name": "answer_question",
        "description": TOOL_DESCRIPTION,
        "parameters": {"type": "object", "properties": {"question": asked}, "required": ["question"]},
    }
    named = searching.as_tool("encyclopedia", "Knows people.")
    assert (named.name, named.desc) == ("encyclopedia", "Knows people.")


def test_a_question_without_an_answer_is_reported_in_words(searching):
    assert searching.as_tool()(question="   ").startswith("No answer: ")
    searching.retriever.error = OSError("away")
    assert searching.as_tool()(question="Where?") == "No answer: retrieve failed (OSError): away"
    assert asyncio.run(searching.as_tool().acall(question="Where?")).startswith("No answer: retrieve failed")


def test_an_answer_from_memory_says_so(programmed):
    program, _ = programmed(ClosedBook(), reply)
    assert program.as_tool()(question="Where?") == "Oslo\n(from memory, without sources)"


def test_long_sources_are_cut_and_many_are_counted():
    source = {"title": "Ann", "passage_id": "p", "text": "lives\nin  Bergen " * 100}
    lines = observation(AnswerPrediction(explanation="", sources=[source] * 7, answer="Bergen")).split("\n")
    assert lines[:2] == ["Bergen", "Sources:"]
    assert lines[2].startswith("[1] Ann: lives in Bergen lives")
    assert [len(line) for line in lines[2:7]] == [304] * 5
    assert lines[7:] == ["and 2 more"]
