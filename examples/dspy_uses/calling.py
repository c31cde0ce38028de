"""Calling: settings, threads, event loops, adapters, histories, tools."""

import asyncio
import copy
import io
import json

import dspy
from dspy.utils import DummyLM

import keqa
from dspy_uses.checks import Module, Spans, expect, right, train
from dspy_uses.scripted import QUESTION, language_model, program, search


def configure_and_context() -> None:
    """configure, context."""
    with dspy.context(lm=language_model()):
        expect(keqa.KEQA(search)(question=QUESTION).answer, "Norway")


def nested_with_its_predictors() -> None:
    """Part of a module, named_predictors."""
    names = dict(Module(program()).named_predictors())
    expect("ask.answering.answer" in names, True)


def evaluate() -> None:
    """Evaluate."""
    expect(dspy.Evaluate(devset=train(), metric=right, num_threads=2)(program()).score, 100.0)


def parallel_and_batch() -> None:
    """Parallel, batch."""
    found = dspy.Parallel(num_threads=2)([(program(), one.inputs()) for one in train(2)])
    expect([one.answer for one in [*found, *program().batch(train(2))]], ["Norway"] * 4)


def acall_and_asyncify() -> None:
    """acall, asyncify, calls inside a running loop."""

    async def both() -> list[str]:
        asked = program()
        inside = asked(question=QUESTION).answer
        return [inside, (await asked.acall(question=QUESTION)).answer, (await dspy.asyncify(asked)(QUESTION)).answer]

    expect(asyncio.run(both()), ["Norway"] * 3)


def usage_callbacks_and_history() -> None:
    """track_usage, callbacks, inspect_history."""
    spans = Spans()
    with dspy.context(track_usage=True, callbacks=[spans]):
        prediction = program()(question=QUESTION)
    expect(spans.lms, prediction.record.cost.lm_requests)
    expect(bool(prediction.get_lm_usage()), True)
    dspy.inspect_history(n=1, file=io.StringIO())


def adapters() -> None:
    """Chat, JSON and XML adapters."""
    for adapter in (dspy.ChatAdapter(), dspy.JSONAdapter(), dspy.XMLAdapter()):
        with dspy.context(adapter=adapter):
            expect(program()(question=QUESTION).answer, "Norway")


def deepcopy_and_reset_copy() -> None:
    """deepcopy, reset_copy."""
    asked = program()
    expect([one(question=QUESTION).answer for one in (copy.deepcopy(asked), asked.reset_copy())], ["Norway"] * 2)


def cache() -> None:
    """Disk cache."""
    asked = program(language_model().copy(cache=True))
    asked(question=QUESTION)
    expect(asked(question=QUESTION).record.cost.calls, 0)


def majority() -> None:
    """majority, Ensemble."""
    prediction = program()(question=QUESTION)
    expect(dspy.majority([prediction, prediction]).answer, "Norway")
    joined = dspy.Ensemble(reduce_fn=dspy.majority).compile([program(), program()])
    expect(joined(question=QUESTION).answer, "Norway")


def history() -> None:
    """dspy.History."""
    turns = dspy.History(messages=[{"question": "Where does Ann live?", "answer": "Bergen"}])
    program()(question="In which country is that?", history=turns)


def as_tool() -> None:
    """as_tool, ReAct."""
    tool = program().as_tool()
    expect((list(tool.args), tool(question=QUESTION).splitlines()[0]), (["question"], "Norway"))
    turns = [
        {"next_thought": "ask", "next_tool_name": tool.name, "next_tool_args": json.dumps({"question": QUESTION})},
        {"next_thought": "done", "next_tool_name": "finish", "next_tool_args": "{}"},
        {"reasoning": "so it says", "answer": "Norway"},
    ]
    with dspy.context(lm=DummyLM(turns)):
        agent = dspy.ReAct("question -> answer", tools=[tool])
        expect(agent(question=QUESTION).trajectory["observation_0"].splitlines()[0], "Norway")
