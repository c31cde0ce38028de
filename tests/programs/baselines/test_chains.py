"""IRCoT, where every sentence is the next query, and FLARE, where unsure sentences are searched for and written again.

What a failure of each prompt leads to is in the stories.
"""

import pytest
from dspy.lm15 import ContextLengthError, ServerError
from servers.openai_server import OpenAIServer, markers

from keqa.errors import ConfigurationError
from keqa.lms.factory import build_lm
from keqa.programs.baselines import FLARE, IRCoT
from keqa.programs.baselines.steps import concluded, first_sentence, masked

QUESTION = "Where was the author of It born?"
CHAIN = ["Ann wrote It.", "Ann was born in Oslo.", "So the answer is Oslo."]
TEXTS = ("It is by Ann.", "Ann is from Oslo.", "Oslo is old.")
FOUND = {QUESTION: [0], CHAIN[0]: [0, 1], CHAIN[1]: [1, 2]}


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Ann wrote it. So the answer is Ann.", "Ann wrote it."),
        ("Dr. J. Smith was born in St. Ives. He died.", "Dr. J. Smith was born in St. Ives."),
        ("One line\nanother", "One line"),
        ("It rose by 3.5 percent.", "It rose by 3.5 percent."),
        # After an initial, too, a word that hardly stands anywhere else begins another sentence.
        ("A. " * 30_000 + "It ends.", ("A. " * 30_000).strip()),
        ("", ""),
    ],
)
def test_only_the_first_sentence_counts(text, first):
    assert first_sentence(text) == first


@pytest.mark.parametrize(
    ("thought", "answer"),
    [
        ("So the answer is Oslo.", "Oslo"),
        ("the answer is: 4 March 1921.", "4 March 1921"),
        ("So the final answer is yes", "yes"),
        ("So the answer is .", ""),
        ("**Final answer:** Oslo.", "Oslo"),
        ("So the answer to the question is Oslo.", "Oslo"),
        ("I have to answer: where is it?", None),
        ("Oslo answers for it.", None),
    ],
)
def test_what_a_thought_concludes(thought, answer):
    assert concluded(thought) == answer


def thinking(thoughts):
    """A language model that says one thought after another, and answers Oslo from passages."""
    left = iter(thoughts)

    def reply(name, inputs, config):
        if name == "ReasonWithKnowledge":
            return {"reasoning": "because", "answer": "Oslo"}
        given = next(left)
        if isinstance(given, Exception):
            raise given
        return {"thought": given}

    return reply


@pytest.fixture
def chained(asked):
    def ask(thoughts=CHAIN, **settings):
        return asked(IRCoT, thinking(thoughts), *TEXTS, found=FOUND, question=(QUESTION,), **settings)

    return ask


def test_where_the_chain_ends(chained):
    _, engine, queries = chained(max_steps=2, max_passages=1)
    assert (len(queries), engine.count["ExtendReasoning"]) == (2, 2)
    assert engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann."]'
    # A sentence said again ends it.
    assert chained([CHAIN[0]] * 5)[1].count["ExtendReasoning"] == 2
    record, engine, _ = chained([CHAIN[0], ServerError("down")])
    notes = [(note.action, note.touches) for note in record.degradations]
    assert notes == [("asked again", False), ("answered from the passages found so far", True)]
    assert engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann.", "Ann is from Oslo."]'
    # Passages that exceed the window are halved.
    _, engine, _ = chained([CHAIN[0], ContextLengthError("too long"), *CHAIN[1:]])
    assert engine.asked("ExtendReasoning")[2]["passages"] == '["It is by Ann."]'


def test_without_a_reader_the_chain_answers_and_calls_are_as_many_as_searches(chained):
    record, engine, queries = chained(reader=False)
    assert (record.answer, record.answer_source, record.explanation) == ("Oslo", "passages", " ".join(CHAIN))
    assert (queries, engine.count) == ([QUESTION, *CHAIN[:2]], {"ExtendReasoning": 3})
    assert (record.cost.samples, record.cost.retrievals) == (3, 3)
    assert [passage.text for passage in record.passages] == list(TEXTS)
    # A chain that concludes nothing is read, which is said.
    record, engine, _ = chained([CHAIN[0]] * 2, reader=False)
    assert (record.answer, engine.count["ReasonWithKnowledge"]) == ("Oslo", 1)
    assert [note.cause for note in record.degradations] == ["NoAnswerStated"]


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


def on_server(sentences, likely, retriever, *, first_retrieval=False, **settings):
    """The record, the prompts and the queries of one question, asked of an LM with a probability for each token."""
    left = iter(markers(thought=sentence) for sentence in sentences)
    with OpenAIServer(
        reply=lambda messages, n, body: [next(left)], probability=lambda token: likely.get(token.strip(), 0.95)
    ) as server:
        searched = retriever("Ann is from Oslo.", "It is by Ann.", "Other.")
        program = FLARE(searched, first_retrieval=first_retrieval, **settings)
        program.set_lm(build_lm("openai/scripted", api_base=server.api_base, api_key="any", cache=False))
        record = program(QUESTION).record
        assert all(call.body.get("logprobs") or "passages" in call.messages[-1]["content"] for call in server.calls)
        return record, [call.messages[-1]["content"] for call in server.calls], searched.queries


@pytest.mark.server
def test_an_unsure_sentence_is_searched_for_without_its_unsure_words_and_written_again(retriever):
    replies = [CHAIN[0], "Ann was born in Bergen.", CHAIN[1], CHAIN[2]]
    record, prompts, queries = on_server(replies, {"Bergen.": 0.3, "born": 0.7}, retriever)
    assert queries == ["Ann was born in"]
    assert record.explanation == " ".join(CHAIN)
    assert [(quiz.text, quiz.answer) for quiz in record.quizzes] == [("Ann was born in", "Ann was born in Oslo.")]
    assert (record.answer, record.answer_source) == ("Oslo", "passages")
    assert [passage.text for passage in record.passages] == ["Ann is from Oslo.", "It is by Ann."]
    assert ['["Ann is from Oslo.", "It is by Ann."]' in prompt for prompt in prompts] == [False, False, True, False]
    # What is found serves one sentence; the next is tried from memory again.
    assert '["Ann wrote It.", "Ann was born in Oslo."]' in prompts[3]


@pytest.mark.server
@pytest.mark.parametrize(
    ("likely", "settings", "sentences", "queried"),
    [
        ({}, {}, CHAIN, []),
        # The markers around a sentence do not count, and with theta 0 nothing is unsure.
        (dict.fromkeys(["[[", "##", "]]", "thought", "completed"], 0.01), {}, CHAIN, []),
        ({"Ann": 0.01}, {"theta": 0}, CHAIN, []),
        # A sentence without a sure word searches for the question.
        (dict.fromkeys(["Ann", "wrote", "It."], 0.1), {}, [CHAIN[0], CHAIN[0], CHAIN[2]], [QUESTION]),
    ],
)
def test_when_it_searches(retriever, likely, settings, sentences, queried):
    record, _, queries = on_server(sentences, likely, retriever, **settings)
    assert (queries, record.answer) == (queried, "Oslo")
    assert record.answer_source == ("passages" if queried else "closed_book")
    assert record.cost.calls == 3


def test_where_flare_states_no_answer_or_gets_no_probabilities(asked):
    def flare(thoughts, probability, *texts, **settings):
        return asked(FLARE, thinking(thoughts), *texts, question=(QUESTION,), probability=probability, **settings)

    record, engine, _ = flare([CHAIN[0]] * 9, 0.6, "It is by Ann.", first_retrieval=False)
    assert (record.answer, record.answer_source) == ("Oslo", "passages")
    assert engine.asked("ReasonWithKnowledge")[0]["passages"] == '["It is by Ann."]'
    assert [note.cause for note in record.degradations] == ["NoAnswerStated"]
    # A sentence said again ends the reasoning.
    assert engine.count["ExtendReasoning"] == 4
    with pytest.raises(ConfigurationError, match=r"scripted/\d+ gives no token probabilities, which FLARE needs"):
        flare(CHAIN, None, "text", first_retrieval=False)
