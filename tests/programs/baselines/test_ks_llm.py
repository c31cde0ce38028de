"""KS-LLM: what is selected by what, what the answer is read from, and what a failure leads to."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


@pytest.mark.parametrize("form", ["KS-LLM", "KS-S"])
def test_where_no_triple_can_be_constructed(scripted, retriever, form):
    def broken(name, inputs, config):
        return "garbage" if name == "ConstructTriples" else reply(name, inputs, config)

    record, engine = asked(scripted, KSLLM(retriever(*PASSAGES), form=form), broken)
    assert shown(engine) == (list(PASSAGES), [], [])
    assert [(one.stage, one.action) for one in record.degradations] == [
        ("select", "asked again"),
        ("select", "answered from whole passages"),
    ]
    assert (record.answer, record.touched) == ("Ann Berg", True)


def test_without_triples_and_passages_there_is_nothing_to_answer_from(scripted, retriever):
    lm, engine = scripted(lambda name, inputs, config: "garbage")
    program = KSLLM(retriever(*PASSAGES), form="KS-T")
    program.set_lm(lm)
    with pytest.raises(UnansweredError, match="select failed"):
        program("Who?")
    assert engine.count == {"ConstructTriples": 2}


def test_where_nothing_is_found_the_triples_are_answered_from(scripted, retriever):
    for found in (retriever(), None):
        record, engine = asked(scripted, KSLLM(found))
        assert shown(engine) == ([], [], TRIPLES)
        assert (record.answer_source, record.quizzes[0].retrieved) == ("closed_book", found is not None)


def test_a_search_that_fails_fails_the_question(scripted, retriever):
    found = retriever(*PASSAGES)
    found.error = OSError("away")
    with pytest.raises(UnansweredError, match=r"retrieve failed \(OSError\): away") as caught:
        asked(scripted, KSLLM(found))
    (note,) = caught.value.record.degradations
    assert (note.action, note.touches, found.queries) == ("searched again", False, ["Who governs Carmouth?"] * 2)


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
