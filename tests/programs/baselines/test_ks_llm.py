"""KS-LLM: what is selected by what, what the answer is read from, and what a failure leads to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keqa.errors import ConfigurationError
from keqa.programs import UnansweredError
from keqa.programs.baselines.ks_llm import KSLLM

QUESTION = "Who governs Carmouth?"
PASSAGES = (
    "Carmouth: Carmouth is a harbour. Its mayor is Ann Berg. Fish is sold there.",
    "Berg: Ann Berg is a painter. Who knows Carmouth? Ann Berg was elected mayor.",
)
SENTENCES = ["Its mayor is Ann Berg.", "Ann Berg was elected mayor."]
TRIPLES = ["Ann Berg | mayor | ?"]
ASKED = ["Carmouth: Carmouth is a harbour.", "Who knows Carmouth?"]
"""What the question itself is closest to."""


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {"ConstructTriples": {"triples": json.dumps(TRIPLES)}, "AnswerWithKnowledge": {"answer": "Ann Berg"}}[name]


def asked(scripted, program, replies=reply):
    lm, engine = scripted(replies)
    program.set_lm(lm)
    return program(QUESTION).record, engine


def shown(engine) -> tuple[Any, ...]:
    """Passages, evidence and triples that the answer is read from; those that are empty may be left out."""
    (inputs,) = engine.asked("AnswerWithKnowledge")
    return tuple(json.loads(inputs.get(name) or "[]") for name in ("passages", "evidence", "triples"))


@pytest.mark.parametrize(
    ("form", "evidence", "triples", "calls"),
    [
        ("KS-LLM", SENTENCES, TRIPLES, 2),
        ("KS-Q", ASKED, [], 1),
        ("KS-T", [], TRIPLES, 2),
        ("KS-S", SENTENCES, [], 2),
    ],
)
def test_what_each_form_answers_from(scripted, retriever, form, evidence, triples, calls):
    found = retriever(*PASSAGES)
    record, engine = asked(scripted, KSLLM(found, form=form))
    assert shown(engine) == ([], evidence, triples)
    assert (record.answer, record.method, record.degradations) == ("Ann Berg", "ks-llm", [])
    assert len(engine.calls) == calls
    searched = form != "KS-T"
    assert (found.queries, record.cost.retrievals) == ([QUESTION] * searched, int(searched))
    (quiz,) = record.quizzes
    assert (quiz.retrieved, len(quiz.passages), quiz.evidence) == (searched, 2 * searched, evidence)
    assert quiz.triples == ([] if form == "KS-Q" else TRIPLES)
    assert record.answer_source == quiz.source == ("passages" if searched else "closed_book")


def test_k_sentences_of_all_passages_together(scripted, retriever):
    _, engine = asked(scripted, KSLLM(retriever(*PASSAGES), evidence_sentences=3))
    assert shown(engine)[1] == ["Its mayor is Ann Berg.", "Berg: Ann Berg is a painter.", "Ann Berg was elected mayor."]
    _, engine = asked(scripted, KSLLM(retriever(*PASSAGES), evidence_sentences=3, top_k=1))
    assert len(shown(engine)[1]) == 3
    assert all(sentence in PASSAGES[0] for sentence in shown(engine)[1])


def test_sentences_by_embeddings(scripted, retriever):
    program = KSLLM(retriever(*PASSAGES), similarity="hashing", evidence_sentences=1)
    _, engine = asked(scripted, program)
    assert shown(engine)[1] == ["Its mayor is Ann Berg."]
    assert (program.similarity, program.selection.similarity.name) == ("hashing", "hashing")


@pytest.mark.parametrize(
    ("form", "passages", "action"),
    [
        ("KS-LLM", list(PASSAGES), "answered from whole passages"),
        ("KS-S", list(PASSAGES), "answered from whole passages"),
        ("KS-T", [], "answered without triples"),
    ],
)
def test_where_no_triple_can_be_constructed(scripted, retriever, form, passages, action):
    def broken(name, inputs, config):
        return "garbage" if name == "ConstructTriples" else reply(name, inputs, config)

    record, engine = asked(scripted, KSLLM(retriever(*PASSAGES), form=form), broken)
    assert shown(engine) == (passages, [], [])
    assert [(one.stage, one.action) for one in record.degradations] == [("select", action)]
    assert record.answer == "Ann Berg"


def test_where_nothing_is_found_the_triples_are_answered_from(scripted, retriever):
    for found in (retriever(), None):
        record, engine = asked(scripted, KSLLM(found))
        assert shown(engine) == ([], [], TRIPLES)
        assert (record.answer_source, record.quizzes[0].retrieved) == ("closed_book", found is not None)


def test_a_search_that_fails_is_told(scripted, retriever):
    found = retriever(*PASSAGES)
    found.error = OSError("away")
    record, engine = asked(scripted, KSLLM(found))
    assert shown(engine) == ([], [], TRIPLES)
    assert [(one.stage, one.quiz) for one in record.degradations] == [("retrieve", 1)]


def test_without_an_answer_the_question_fails_with_its_story(scripted, retriever):
    program = KSLLM(retriever(*PASSAGES))
    program.set_lm(scripted(lambda name, inputs, config: {**reply(name, inputs, config), "answer": " "})[0])
    with pytest.raises(UnansweredError) as raised:
        program(QUESTION)
    assert (raised.value.stage, raised.value.record.cost.retrievals) == ("answer", 1)


def test_choices_reach_the_answer(scripted, retriever):
    lm, engine = scripted(reply)
    program = KSLLM(retriever(*PASSAGES))
    program.set_lm(lm)
    program(QUESTION, answer_type="choice", choices=["Ann Berg", "Bo Lind"])
    assert "Bo Lind" in engine.asked("AnswerWithKnowledge")[0]["choices"]


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"evidence_sentences": 0}, {"form": "KS-X"}])
def test_settings_that_cannot_work(retriever, wrong):
    with pytest.raises(ConfigurationError):
        KSLLM(retriever("x"), **wrong)
