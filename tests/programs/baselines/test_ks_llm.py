"""KS-LLM and its baselines: what is selected, and what a failure leads to; see the stories of each form, too."""

import json
from typing import Any

import pytest

from keqa.programs.baselines.reading import KSLLM, DocumentReader

QUESTION = "Who governs Carmouth?"
PASSAGES = (
    "Carmouth is a harbour. Its mayor is Ann Berg. Fish is sold there.",
    "Ann Berg is a painter. Who knows Carmouth? Ann Berg was elected mayor.",
)
TRIPLES = ["Ann Berg | mayor | Carmouth", "Ann Berg | office | mayor"]
ASKED = ["Carmouth is a harbour.", "Who knows Carmouth?"]
"""What the question itself is closest to."""


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    if name == "ExpandSubject":
        return {"subject": "Ann Berg", "triples": json.dumps(TRIPLES)}
    return {"reasoning": "So it is.", "answer": "Ann Berg"} if name.startswith("Reason") else {"answer": "Ann Berg"}


def asked(scripted, program, replies=reply):
    lm, engine = scripted(replies)
    program.set_lm(lm)
    return program(QUESTION).record, engine


def shown(engine) -> tuple[Any, ...]:
    """Triples and evidence that the answer is read from; those that are empty may be left out."""
    (inputs,) = engine.asked("AnswerWithEvidence")
    return tuple(json.loads(inputs.get(name) or "[]") for name in ("triples", "evidence"))


def test_k_sentences_of_all_passages_together(scripted, retriever):
    program = KSLLM(retriever(*PASSAGES), similarity="hashing", evidence_sentences=1)
    assert shown(asked(scripted, program)[1])[1] == ["Its mayor is Ann Berg."]
    # A title is no part of a sentence, an abbreviation ends none, and each counts once, for the passage it is first in.
    texts = ("Ann Berg lives in St. Ives. It won!", "J. K. Berg saw it. It won!")
    record, _ = asked(scripted, KSLLM(retriever(*texts), evidence_sentences=9))
    assert [(one.text, one.passage_id) for one in record.quizzes[0].selected] == [
        ("Ann Berg lives in St. Ives.", "p0"),
        ("It won!", "p0"),
        ("J. K. Berg saw it.", "p1"),
    ]
    _, engine = asked(scripted, KSLLM(retriever(*PASSAGES), evidence_sentences=3))
    assert shown(engine)[1] == ["Its mayor is Ann Berg.", "Ann Berg is a painter.", "Ann Berg was elected mayor."]
    _, engine = asked(scripted, KSLLM(retriever(*PASSAGES), evidence_sentences=3, top_k=1))
    assert len(shown(engine)[1]) == 3
    assert all(sentence in PASSAGES[0] for sentence in shown(engine)[1])


ANN, BO = "Ann Berg | was born in | Oslo", "Bo Lund | was born in | Bergen"


def test_the_triples_may_be_embedded_as_one_text(scripted, retriever):
    def two_people(name, inputs, config):
        told = {"subject": "both", "triples": json.dumps([ANN, "ann berg | left | Oslo", BO])}
        return told if name == "ExpandSubject" else reply(name, inputs, config)

    texts = ["Ann Berg was born in Oslo. Ann Berg left Oslo. Bo Lund was born near Bergen."]
    found = {
        one_text: asked(scripted, KSLLM(retriever(*texts), one_text=one_text), two_people)[0].quizzes[0].selected
        for one_text in (False, True)
    }
    # Each by itself, the two people choose in turn; as one text the triples have one distance.
    assert [one.nearest_to for one in found[False]] == [ANN, BO]
    assert {one.nearest_to for one in found[True]} == {f"{ANN}; ann berg | left | Oslo; {BO}"}
    assert all(one.distance < other.distance for one, other in zip(found[False], found[True], strict=True))


@pytest.mark.parametrize("form", ["KS-LLM", "KS-S"])
def test_without_triples_the_question_selects_and_that_is_reported(scripted, retriever, form):
    def broken(name, inputs, config):
        empty = {"subject": "Ann Berg", "triples": "[]"}
        return empty if name == "ExpandSubject" else reply(name, inputs, config)

    record, engine = asked(scripted, KSLLM(retriever(*PASSAGES), form=form), broken)
    assert shown(engine) == ([], ASKED)
    assert [(one.stage, one.cause, one.action) for one in record.degradations] == [
        *[("expand", "EmptyTriplesError", "asked again")] * 4,
        ("expand", "EmptyTriplesError", "selected by the question, without triples"),
    ]
    assert (record.answer, record.touched) == ("Ann Berg", True)


def test_without_a_retriever_the_triples_are_answered_from(scripted):
    record, engine = asked(scripted, KSLLM(None))
    assert (shown(engine), record.answer_source, record.quizzes[0].retrieved) == ((TRIPLES, []), "closed_book", False)


@pytest.mark.parametrize(("reason", "prompt"), [(False, "AnswerWithKnowledge"), (True, "ReasonWithKnowledge")])
def test_the_document_is_read_up_to_so_many_tokens(scripted, retriever, reason, prompt):
    # LiteLLM's count of the scripted model: each of these words and its full stop is one token.
    found = retriever("one two three four.", "five six seven eight.", "nine ten.")
    record, engine = asked(scripted, DocumentReader(found, document_tokens=7, reason=reason))
    (inputs,) = engine.asked(prompt)
    assert json.loads(inputs["passages"]) == ["one two three four.", "five six"]
    assert [(one.text, one.kept, one.why) for one in record.passages] == [
        ("one two three four.", True, "every passage found is kept"),
        ("five six", True, "every passage found is kept: the first 7 tokens of the document end in it"),
        ("nine ten.", False, "beyond the first 7 tokens of the document"),
    ]
    record, engine = asked(scripted, DocumentReader(found))
    assert len(json.loads(engine.asked("AnswerWithKnowledge")[0]["passages"])) == 3
