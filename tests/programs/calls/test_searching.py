"""Searches show in DSPy's callbacks, faults in a retriever are no outages, and replies of no use are forgotten."""

import asyncio
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
from dspy.clients.cache import Cache
from dspy.utils.callback import BaseCallback, callback_context
from dspy.utils.exceptions import LMTransportError

from keqa.programs import KEQA, UnansweredError
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook
from keqa.programs.calls.session import keeping
from keqa.retrievers.base import Hit, Passage


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {"answer": "Bergen"}


class Spans(BaseCallback):
    """Notes what a tracing package would draw: each call with that which it is made within."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[str, str | None, Any]] = {}
        self.ended: list[tuple[Any, Any]] = []

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        name = getattr(instance, "name", type(instance).__name__)
        self.begun[call_id] = (name, callback_context.ACTIVE_CALL_ID.get(), inputs)

    on_lm_start = on_tool_start = on_module_start

    def on_tool_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
        self.ended.append((outputs, exception))


def knows(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    """Knows where Ann lives, and not in which country that is."""
    if name == "DecomposeQuestion":
        return {"quizzes": '["In which city does Ann live?", "In which country is #1?"]'}
    if name == "AnswerQuiz":
        return {"answer": "Bergen" if "city" in inputs["quiz"] else f"Land {config.seed}"}
    norway = {"answer": "Norway", "explanation": "Bergen is there."}
    return {"same": False, "helpful": "Norway" in inputs.get("passage", ""), **norway}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_question_is_one_tree_of_calls_with_its_searches(programmed, retriever, asynchronous):
    program, engine = programmed(KEQA(retriever("Bergen is a city in Norway.", "Rome is in Italy."), top_k=2), knows)
    spans, asked = Spans(), "In which country does Ann live?"
    with dspy.context(callbacks=[spans]):
        prediction = asyncio.run(program.acall(question=asked)) if asynchronous else program(question=asked)
    assert (prediction.answer, prediction.record.cost.retrievals) == ("Norway", 1)
    [(whole, name)] = [(one, name) for one, (name, within, _) in spans.begun.items() if within is None]
    assert name == "KEQA"
    assert {within for _, within, _ in spans.begun.values()} <= {None, *spans.begun}
    [search] = [(within, inputs) for name, within, inputs in spans.begun.values() if name == "search"]
    assert search == (whole, {"kwargs": {"query": "In which country is Bergen?", "k": 2}})
    found = [("p0", "Bergen is a city in Norway.", 10.0), ("p1", "Rome is in Italy.", 9.0)]
    shown = [{"title": "", "passage_id": name, "text": text, "score": score} for name, text, score in found]
    assert spans.ended == [(shown, None)]
    names = [name for name, _, _ in spans.begun.values()]
    assert {"Decomposition", "Examination", "Picking", "Answering", "Summarizing"} < {*names}
    assert names.count("LM") == len(engine.calls)


def test_a_search_that_failed_shows_as_such(programmed, retriever):
    program, _ = programmed(AlwaysRetrieve(retriever("Ann lives in Bergen.")), reply)
    spans, program.retriever.error = Spans(), TypeError("not a query")
    with dspy.context(callbacks=[spans]), pytest.raises(TypeError, match="not a query"):
        program(question="Where?")
    ((outputs, error),) = spans.ended
    assert (outputs, type(error)) == (None, TypeError)


def test_of_scores_that_are_no_numbers_the_order_counts(programmed):
    def search(query: str) -> list[Hit]:
        return [Hit(Passage(name, "", f"{name} lives in Bergen."), score) for name, score in scores.items()]

    scores = {"Ann": float("nan"), "Bo": 0.5}
    program, _ = programmed(AlwaysRetrieve(search), reply)
    passages = program(question="Where?").record.passages
    assert [one.score for one in passages] == [1.0, 0.5]
    scores["Ann"] = 0.75
    assert [one.score for one in program(question="Where?").record.passages] == [0.75, 0.5]


@pytest.mark.parametrize(
    "found", [["Ann lives in Bergen."] * 9, [Hit(Passage(7, "", "x"), 1.0)], [Passage("7", "", "x")]]
)
def test_a_retriever_of_ones_own_is_read_as_a_function_is(programmed, found):
    own = SimpleNamespace(search=lambda query, k: iter(found), search_many=lambda queries, k: [])
    program, _ = programmed(AlwaysRetrieve(own, top_k=3), reply)
    passages = program(question="Where?").record.passages
    assert [type(one.passage_id) for one in passages] == [str] * min(3, len(found))


@pytest.mark.parametrize("fault", [TypeError, AttributeError])
def test_faults_surface_even_where_a_client_of_a_server_met_them(programmed, fault):
    import httpx

    def search(query: str) -> list[str]:
        if fault is AttributeError:
            raise fault("no such part")
        # The client trips over a wrong use of it.
        httpx.get(3)  # type: ignore[arg-type]
        return []

    program, _ = programmed(AlwaysRetrieve(search), reply)
    with pytest.raises(fault):
        program(question="Where?")


@pytest.mark.usefixtures("memory_cache")
@pytest.mark.parametrize(("reply", "kept"), [("garbage {", 0), ({"answer": ""}, 0), ({"answer": "Ann"}, 1)])
def test_only_a_reply_that_can_be_used_is_kept(programmed, reply, kept):
    replies = [reply]
    program, engine = programmed(ClosedBook(), lambda name, inputs, config: replies[0], cache=True)
    for _ in range(2):
        try:
            program("Who?")
        except UnansweredError:
            continue
    assert len(dspy.cache.memory_cache) == kept
    before = len(engine.calls)
    replies[0] = {"answer": "Bo"}
    assert program("Who?").answer == ("Ann" if kept else "Bo")
    assert len(engine.calls) == before + (1 - kept)


@pytest.mark.usefixtures("memory_cache")
def test_what_an_engine_that_repeats_itself_cannot_answer_is_asked_once_and_an_outage_is_asked_again(programmed):
    outage = LMTransportError("away", model="m", provider="p")
    replies = [outage]

    def reply(name, inputs, config):
        if isinstance(replies[0], Exception):
            raise replies[0]
        return replies[0]

    program, engine = programmed(ClosedBook(), reply, cache=True)
    engine.repeats = True
    for replies[0], calls in ((outage, 2), ("", 5), ("", 0)):
        before = len(engine.calls)
        with pytest.raises(UnansweredError):
            program("Who?")
        assert len(engine.calls) - before == calls


def test_a_cache_tells_what_it_keeps_to_the_call_that_is_made_which_is_forgotten_on_the_disk_too(tmp_path, monkeypatch):
    cache, request = Cache(True, True, str(tmp_path), 10**7), {"model": "m", "prompt": "p"}
    monkeypatch.setattr(dspy, "cache", cache)
    with keeping(SimpleNamespace(cache=True)) as kept:
        dspy.cache.put(request, "reply")
    cache.memory_cache.clear()
    assert cache.get(request) == "reply"
    [forget] = kept
    for _ in range(2):
        forget()
        assert cache.get(request) is None
    cache.disk_cache.close()
