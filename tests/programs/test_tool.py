"""A program as a tool: a question in, a short answer with sources out."""

from __future__ import annotations

import asyncio
from typing import Any

import dspy
import pytest
from dspy.utils import DummyLM

from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.prediction import AnswerPrediction, observation


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {"answer": "Bergen"}


@pytest.fixture
def program(scripted, retriever):
    lm, _ = scripted(reply)
    program = AlwaysRetrieve(retriever("Ann lives in Bergen."))
    program.set_lm(lm)
    return program


ANSWER = "Bergen\nSources:\n[1] Ann lives in Bergen."


def test_a_question_goes_in_and_a_short_answer_comes_out(program):
    tool = program.as_tool()
    assert (tool.name, list(tool.args), tool.args["question"]["type"]) == ("answer_question", ["question"], "string")
    assert tool(question="Where does Ann live?") == ANSWER
    assert asyncio.run(tool.acall(question="Where does Ann live?")) == ANSWER
    assert tool.func("Where does Ann live?") == ANSWER
    schema = tool.format_as_litellm_function_call()["function"]
    assert schema["parameters"]["required"] == ["question"]
    named = program.as_tool("encyclopedia", "Knows people.")
    assert (named.name, named.desc) == ("encyclopedia", "Knows people.")


def test_react_uses_it(program):
    chosen = {"next_thought": "ask", "next_tool_name": "answer_question"}
    lm = DummyLM(
        [
            {**chosen, "next_tool_args": '{"question": "Where does Ann live?"}'},
            {"next_thought": "done", "next_tool_name": "finish", "next_tool_args": "{}"},
            {"reasoning": "so it says", "answer": "Bergen"},
        ]
    )
    with dspy.context(lm=lm):
        agent = dspy.ReAct("question -> answer", tools=[program.as_tool()])
        found = agent(question="Where does the sister of Bo live?")
        copied = agent.deepcopy()
    assert found.trajectory["observation_0"] == ANSWER
    assert found.answer == "Bergen"
    assert copied.tools["answer_question"](question="Where does Ann live?") == ANSWER


def test_a_question_without_an_answer_is_reported_in_words(program, retriever):
    assert program.as_tool()(question="   ").startswith("No answer: ")
    program._retriever.value.error = OSError("away")
    assert program.as_tool()(question="Where?") == "No answer: retrieve failed (OSError): away"
    assert asyncio.run(program.as_tool().acall(question="Where?")).startswith("No answer: retrieve failed")


def test_an_answer_from_memory_says_so(scripted):
    lm, _ = scripted(reply)
    program = ClosedBook()
    program.set_lm(lm)
    assert program.as_tool()(question="Where?") == "Bergen\n(from memory, without sources)"


def test_long_sources_are_cut_and_many_are_counted():
    source = {"title": "Ann", "passage_id": "p", "text": "lives\nin  Bergen " * 100}
    lines = observation(AnswerPrediction(explanation="", sources=[source] * 7, answer="Bergen")).split("\n")
    assert lines[:2] == ["Bergen", "Sources:"]
    assert lines[2].startswith("[1] Ann: lives in Bergen lives")
    assert [len(line) for line in lines[2:7]] == [304] * 5
    assert lines[7:] == ["and 2 more"]
