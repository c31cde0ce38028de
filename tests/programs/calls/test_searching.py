"""Searches show in DSPy's callbacks, and faults in a retriever are never taken for outages."""

from __future__ import annotations

import asyncio
from typing import Any

import dspy
import pytest
from dspy.utils.callback import BaseCallback

from keqa.programs.baselines import AlwaysRetrieve


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {"answer": "Bergen"}


class Spans(BaseCallback):
    """Notes what a tracing package would draw."""

    def __init__(self) -> None:
        self.started: list[tuple[str, Any]] = []
        self.ended: list[tuple[Any, Any]] = []

    def on_tool_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.started.append((instance.name, inputs))

    def on_tool_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
        self.ended.append((outputs, exception))


@pytest.fixture
def program(scripted, retriever):
    lm, _ = scripted(reply)
    program = AlwaysRetrieve(retriever("Ann lives in Bergen."), top_k=3)
    program.set_lm(lm)
    return program


FOUND = [{"title": "", "passage_id": "p0", "text": "Ann lives in Bergen.", "score": 10.0}]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_search_is_a_call_of_a_tool(program, asynchronous):
    spans = Spans()
    with dspy.context(callbacks=[spans]):
        if asynchronous:
            prediction = asyncio.run(program.acall(question="Where does Ann live?"))
        else:
            prediction = program(question="Where does Ann live?")
    assert prediction.answer == "Bergen"
    assert spans.started == [("search", {"kwargs": {"query": "Where does Ann live?", "k": 3}})]
    assert spans.ended == [(FOUND, None)]
    assert prediction.record.cost.retrievals == 1


def test_a_search_that_failed_shows_as_such(program):
    spans, program._retriever.value.error = Spans(), TypeError("not a query")
    with dspy.context(callbacks=[spans]), pytest.raises(TypeError, match="not a query"):
        program(question="Where?")
    ((outputs, error),) = spans.ended
    assert (outputs, type(error)) == (None, TypeError)


@pytest.mark.parametrize("fault", [TypeError, AttributeError])
def test_faults_surface_even_where_a_client_of_a_server_met_them(scripted, fault):
    import httpx

    def search(query: str) -> list[str]:
        if fault is AttributeError:
            raise fault("no such part")
        # The client trips over a wrong use of it.
        httpx.get(3)  # type: ignore[arg-type]
        return []

    lm, _ = scripted(reply)
    program = AlwaysRetrieve(search)
    program.set_lm(lm)
    with pytest.raises(fault):
        program(question="Where?")
