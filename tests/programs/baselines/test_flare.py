"""FLARE: unsure sentences are searched for and written again."""

from __future__ import annotations

from functools import partial

import pytest
from dspy.lm15 import ServerError
from hypothesis import given
from hypothesis import strategies as st
from servers.openai_server import OpenAIServer, markers

from keqa.errors import ConfigurationError
from keqa.lms.factory import build_lm
from keqa.programs import UnansweredError
from keqa.programs.baselines import chains
from keqa.programs.baselines.chains import masked

FLARE = partial(chains.FLARE, first_retrieval=False)
QUESTION = "Where was the author of It born?"
CHAIN = ["Ann wrote It.", "Ann was born in Oslo.", "So the answer is Oslo."]


@pytest.mark.parametrize(
    ("sentence", "probabilities", "query"),
    [
        ("Joe Biden attended Penn .", [0.9, 0.9, 0.9, 0.2, 0.9], "Joe Biden attended ."),
        ("So the answer is Oslo.", [0.9, 0.9, 0.9, 0.9, 0.5], "Oslo."),
        ("So the answer is Oslo.", [0.9, 0.9, 0.9, 0.9, 0.1], ""),
        ("It is .", [0.1, 0.1, 0.9], ""),
    ],
)
def test_unsure_words_are_left_out(sentence, probabilities, query):
    assert masked(sentence, probabilities, 0.4) == query


@given(st.lists(st.tuples(st.sampled_from(["Ann", "Oslo", "wrote"]), st.floats(0, 1)), max_size=8), st.floats(0, 1))
def test_a_query_keeps_sure_words_only(words, beta):
    query = masked(" ".join(word for word, _ in words), [probability for _, probability in words], beta)
    assert query.split() == [word for word, probability in words if probability >= beta]


def on_server(replies, likely, retriever, **settings):
    """The record, the requests and the queries of one question, asked of an LM with a probability for each token."""
    left = iter(replies)
    with OpenAIServer(
        reply=lambda messages, n, body: [next(left)], probability=lambda token: likely.get(token.strip(), 0.95)
    ) as server:
        searched = retriever("Ann is from Oslo.", "It is by Ann.")
        program = FLARE(searched, **settings)
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        return program(QUESTION).record, server.calls, searched.queries


def thoughts(*sentences):
    return [markers(thought=sentence) for sentence in sentences]


@pytest.mark.server
def test_sure_sentences_need_no_search(retriever):
    record, calls, queries = on_server(thoughts(*CHAIN), {}, retriever)
    assert (record.answer, record.answer_source, record.explanation) == ("Oslo", "closed_book", " ".join(CHAIN))
    assert [call.body.get("logprobs") for call in calls] == [True, True, True]
    assert (queries, record.quizzes, record.degradations) == ([], [], [])
    assert (record.method, record.cost.calls, record.cost.retrievals) == ("flare", 3, 0)


@pytest.mark.server
def test_an_unsure_sentence_is_searched_for_without_its_unsure_words_and_written_again(retriever):
    replies = thoughts(CHAIN[0], "Ann was born in Bergen.", CHAIN[1], CHAIN[2])
    record, calls, queries = on_server(replies, {"Bergen.": 0.3, "born": 0.7}, retriever)
    assert queries == ["Ann was born in"]
    assert record.explanation == " ".join(CHAIN)
    assert [(quiz.text, quiz.answer) for quiz in record.quizzes] == [("Ann was born in", "Ann was born in Oslo.")]
    assert (record.answer, record.answer_source) == ("Oslo", "passages")
    assert [passage.text for passage in record.passages] == ["Ann is from Oslo.", "It is by Ann."]
    prompts = [call.messages[-1]["content"] for call in calls]
    assert ['["Ann is from Oslo.", "It is by Ann."]' in prompt for prompt in prompts] == [False, False, True, False]
    # What is found serves one sentence; the next is tried from memory again.
    assert '["Ann wrote It.", "Ann was born in Oslo."]' in prompts[3]


@pytest.mark.server
def test_a_sentence_without_a_sure_word_searches_for_the_question(retriever):
    likely = dict.fromkeys(["Ann", "wrote", "It."], 0.1)
    _, _, queries = on_server(thoughts(CHAIN[0], CHAIN[0], CHAIN[2]), likely, retriever)
    assert queries == [QUESTION]


@pytest.mark.server
def test_the_markers_around_a_sentence_do_not_count(retriever):
    likely = {"[[": 0.01, "##": 0.01, "]]": 0.01, "thought": 0.01, "completed": 0.01}
    _, _, queries = on_server(thoughts(*CHAIN), likely, retriever)
    assert queries == []


@pytest.mark.server
def test_with_theta_0_nothing_is_unsure(retriever):
    _, _, queries = on_server(thoughts(*CHAIN), {"Ann": 0.01}, retriever, theta=0)
    assert queries == []


def test_reasoning_without_an_answer_is_answered_from_what_was_found(scripted, retriever):
    def reply(name, inputs, config):
        if name == "ReasonWithKnowledge":
            return {"reasoning": "because", "answer": "Oslo"}
        return {"thought": CHAIN[0]}

    lm, engine = scripted(reply)
    engine.probability = 0.6
    program = FLARE(retriever("It is by Ann."))
    program.set_lm(lm)
    record = program(QUESTION).record
    assert (record.answer, record.answer_source) == ("Oslo", "passages")
    assert engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann."]'
    assert [note.cause for note in record.degradations] == ["NoAnswerStated"]
    # A sentence said again ends the reasoning.
    assert engine.count["ExtendReasoning"] == 4


def test_where_passages_cannot_be_read_the_sentence_from_memory_does_not_stand_in(scripted, retriever):
    def reply(name, inputs, config):
        if inputs["passages"] != "[]":
            raise ServerError("down")
        return {"thought": CHAIN[2]}

    lm, engine = scripted(reply)
    engine.probability = 0.6
    program = FLARE(retriever("text"))
    program.set_lm(lm)
    with pytest.raises(UnansweredError, match=r"answer failed \(LMServerError\)"):
        program(QUESTION)


def test_an_lm_without_token_probabilities_is_refused(scripted, retriever):
    lm, _ = scripted(lambda name, inputs, config: {"thought": CHAIN[0]})
    program = FLARE(retriever("text"))
    program.set_lm(lm)
    with pytest.raises(ConfigurationError, match=r"scripted/\d+ gives no token probabilities, which FLARE needs"):
        program(QUESTION)


@pytest.mark.server
def test_the_first_sentence_is_written_from_what_the_question_finds(retriever):
    left = iter(thoughts(*CHAIN))
    with OpenAIServer(reply=lambda messages, n, body: [next(left)], probability=lambda token: 0.95) as server:
        searched = retriever("It is by Ann.", "Ann is from Oslo.", "Other.")
        program = chains.FLARE(searched)
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        record = program(QUESTION).record
    assert (searched.queries, record.cost.retrievals, record.cost.calls) == ([QUESTION], 1, 3)
    assert [(quiz.text, quiz.answer) for quiz in record.quizzes] == [(QUESTION, CHAIN[0])]
    assert [passage.text for passage in record.passages] == ["It is by Ann.", "Ann is from Oslo."]
    assert (record.answer, record.answer_source, record.explanation) == ("Oslo", "passages", " ".join(CHAIN))
    prompts = [call.messages[-1]["content"] for call in server.calls]
    assert ["It is by Ann." in prompt for prompt in prompts] == [True, False, False]


def test_where_the_question_finds_nothing_the_first_sentence_is_tried_from_memory(scripted, retriever):
    left = iter(CHAIN)
    lm, engine = scripted(lambda name, inputs, config: {"thought": next(left)})
    engine.probability = 0.95
    program = chains.FLARE(retriever(found={}))
    program.set_lm(lm)
    record = program(QUESTION).record
    assert (record.answer, record.answer_source, engine.count) == ("Oslo", "closed_book", {"ExtendReasoning": 3})
