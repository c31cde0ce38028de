from typing import Any

import pytest

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.extraction import KeySentences
from keqa.retrievers.base import Retriever

LONG = (
    "Carmouth is a harbour. Its mayor is Ann Berg. It was founded in 1204. The mayor of Carmouth sits in the old hall."
)


def test_the_sentences_closest_to_the_query_stay_in_their_order(retriever):
    short = KeySentences(retriever(LONG, "One sentence only"), 2)
    assert isinstance(short, Retriever)
    hits = short.search("mayor of Carmouth")
    assert [hit.passage.text for hit in hits] == [
        "Carmouth is a harbour. The mayor of Carmouth sits in the old hall.",
        "One sentence only",
    ]
    assert [(hit.passage.id, hit.score) for hit in hits] == [("p0", 10.0), ("p1", 9.0)]
    founded, mayor = short.search_many(["When was it founded?", "Ann Berg"], k=1)
    assert "1204" in founded[0].passage.text
    assert mayor[0].passage.text.endswith("Its mayor is Ann Berg.")


def test_another_similarity(retriever):
    last = KeySentences(retriever(LONG), 1, lambda query, candidates: list(range(len(candidates))))
    assert last.search("?")[0].passage.text == "The mayor of Carmouth sits in the old hall."


def test_judge_answer_and_record_see_the_same_short_passage(scripted, retriever):
    replies: dict[str, Any] = {"JudgeUtility": {"helpful": True}, "AnswerWithKnowledge": {"answer": "Ann Berg"}}
    lm, engine = scripted(lambda name, inputs, config: replies[name])
    program = KEQA(retriever(LONG), decompose=False, examine=False, extract_sentences=1)
    program.set_lm(lm)
    record = program("Who is its mayor?").record
    short = "Its mayor is Ann Berg."
    assert engine.asked("JudgeUtility")[0]["passage"] == short
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == f'["{short}"]'
    assert record.quizzes[0].passages[0].text == short


def test_without_a_retriever_there_is_nothing_to_cut():
    assert KEQA(None, extract_sentences=2).extract_sentences == 2


def test_at_least_one_sentence(retriever):
    with pytest.raises(ConfigurationError, match="extract_sentences"):
        KEQA(retriever("a"), extract_sentences=0)
