"""IRCoT: every sentence of the chain of thought is the next query."""

from __future__ import annotations

from dspy.lm15 import ContextLengthError, ServerError

from keqa.programs.baselines import IRCoT

QUESTION = "Where was the author of It born?"
CHAIN = ["Ann wrote It.", "Ann was born in Oslo.", "So the answer is Oslo."]
FOUND = {QUESTION: [0], CHAIN[0]: [0, 1], CHAIN[1]: [1, 2]}


def chained(thoughts):
    left = iter(thoughts)

    def reply(name, inputs, config):
        if name == "ReasonWithKnowledge":
            return {"reasoning": "because", "answer": "Oslo"}
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return {"thought": given}

    return reply


def solved(scripted, retriever, thoughts=CHAIN, **settings):
    lm, engine = scripted(chained(thoughts))
    searched = retriever("It is by Ann.", "Ann is from Oslo.", "Oslo is old.", found=FOUND)
    program = IRCoT(searched, **settings)
    program.set_lm(lm)
    return program(QUESTION), engine, searched


def test_sentences_and_searches_take_turns(scripted, retriever):
    prediction, engine, searched = solved(scripted, retriever)
    record = prediction.record
    assert searched.queries == [QUESTION, *CHAIN[:2]]
    assert [asked["passages"] for asked in engine.asked("ExtendReasoning")] == [
        '["It is by Ann."]',
        '["It is by Ann.", "Ann is from Oslo."]',
        '["It is by Ann.", "Ann is from Oslo.", "Oslo is old."]',
    ]
    assert [asked["thoughts"] for asked in engine.asked("ExtendReasoning")] == [
        "[]",
        '["Ann wrote It."]',
        '["Ann wrote It.", "Ann was born in Oslo."]',
    ]
    assert (
        engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann.", "Ann is from Oslo.", "Oslo is old."]'
    )
    assert (record.answer, record.explanation, record.answer_source) == ("Oslo", "because", "passages")
    assert [(quiz.text, quiz.answer) for quiz in record.quizzes] == list(zip([QUESTION, *CHAIN], CHAIN, strict=False))
    assert (record.method, record.cost.calls, record.cost.retrievals) == ("ircot", 4, 3)
    assert record.degradations == []


def test_only_the_first_sentence_of_a_reply_is_taken(scripted, retriever):
    _, _, searched = solved(scripted, retriever, [" ".join(CHAIN), *CHAIN[1:]])
    assert searched.queries == [QUESTION, *CHAIN[:2]]


def test_stops_at_the_limit_of_sentences_and_of_passages(scripted, retriever):
    _, engine, searched = solved(scripted, retriever, max_steps=2, max_passages=1)
    assert (len(searched.queries), engine.count["ExtendReasoning"]) == (2, 2)
    assert engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann."]'


def test_a_sentence_said_again_ends_the_chain(scripted, retriever):
    _, engine, _ = solved(scripted, retriever, [CHAIN[0]] * 5)
    assert engine.count["ExtendReasoning"] == 2


def test_a_failing_sentence_ends_the_chain(scripted, retriever):
    prediction, engine, _ = solved(scripted, retriever, [CHAIN[0], ServerError("down")])
    assert prediction.answer == "Oslo"
    told = [(note.action, note.touches) for note in prediction.record.degradations]
    assert told == [("asked again", False), ("answered from the passages found so far", True)]
    assert prediction.record.touched
    assert engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann.", "Ann is from Oslo."]'


def test_passages_that_exceed_the_window_are_halved(scripted, retriever):
    prediction, engine, _ = solved(scripted, retriever, [CHAIN[0], ContextLengthError("too long"), *CHAIN[1:]])
    assert prediction.answer == "Oslo"
    assert engine.asked("ExtendReasoning")[2]["passages"] == '["It is by Ann."]'
