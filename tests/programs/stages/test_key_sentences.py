from typing import Any

import pytest

from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.reference.utility_reference import Entry, UtilityReference
from keqa.programs.stages.picking import unjudged, with_kept
from keqa.programs.stages.selection import lexical_similarity, with_key_sentences

LONG = (
    "Carmouth is a harbour. Its mayor is Ann Berg. It was founded in 1204. The mayor of Carmouth sits in the old hall."
)
MAYOR = "Who is the mayor?"
GARBURG = "Garburg: Garburg is a port. Its mayor is Bo Lind. It was founded in 1333. A fire burnt the mill."


def cut(keep, quiz, hits, similarity=lexical_similarity):
    found, verdicts = with_key_sentences(quiz, hits, unjudged(hits), keep, similarity)
    assert [verdict.text for verdict in verdicts] == [hit.passage.text for hit in found]
    return [hit.passage.text for hit in found]


def test_the_sentences_closest_to_the_quiz_stay_in_their_order(retriever):
    hits = retriever(LONG, "One sentence only").search("mayor of Carmouth")
    assert cut(2, "mayor of Carmouth", hits) == [
        "Carmouth is a harbour. The mayor of Carmouth sits in the old hall.",
        "One sentence only",
    ]


def test_a_passage_of_as_many_sentences_stays_as_it_is_written(retriever):
    text = "Carmouth is a harbour.\n  Its mayor is Ann Berg."
    assert cut(2, "mayor", retriever(text).search("mayor")) == [text]


def test_a_heading_is_no_sentence(retriever):
    text = "# Its mayor\nCarmouth is a harbour. Its mayor is Ann Berg."
    assert cut(1, "Who is its mayor?", retriever(text).search("mayor")) == ["Its mayor is Ann Berg."]


def test_another_similarity(retriever):
    last = cut(1, "?", retriever(LONG).search("?"), lambda query, candidates: list(range(len(candidates))))
    assert last == ["The mayor of Carmouth sits in the old hall."]


def test_what_was_left_out_stays_whole(retriever):
    hits = retriever(LONG, LONG).search(MAYOR)
    left_out = [verdict.model_copy(update={"kept": False}) for verdict in unjudged(hits)]
    found, verdicts = with_key_sentences(MAYOR, hits, with_kept(left_out, 1, "kept"), 1, lexical_similarity)
    assert [len(hit.passage.text) < len(LONG) for hit in found] == [False, True]
    assert verdicts[0].text == LONG


@pytest.mark.parametrize("pick", [True, False])
def test_the_judge_reads_whole_passages_and_the_answer_what_is_cut(scripted, retriever, pick):
    replies: dict[str, Any] = {"JudgeUtility": {"helpful": True}, "AnswerWithKnowledge": {"answer": "Ann Berg"}}
    lm, engine = scripted(lambda name, inputs, config: replies[name])
    reference = UtilityReference().fit([Entry("r", MAYOR, GARBURG, True)])
    program = KEQA(retriever(LONG), decompose=False, examine=False, pick=pick, extract_sentences=1, reference=reference)
    program.set_lm(lm)
    record = program("Who is its mayor?").record
    short = "Its mayor is Ann Berg."
    judged = [prompt for (name, _, _), prompt in zip(engine.calls, engine.prompts, strict=True) if "Judge" in name]
    assert [LONG in prompt and GARBURG in prompt for prompt in judged] == [True] * pick
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == f'["{short}"]'
    assert record.quizzes[0].passages[0].text == short


def test_without_a_retriever_there_is_nothing_to_cut():
    assert KEQA(None, extract_sentences=2).extract_sentences == 2


def test_at_least_one_sentence(retriever):
    with pytest.raises(ConfigurationError, match="extract_sentences"):
        KEQA(retriever("a"), extract_sentences=0)
