"""A try is an LM call, whether or not one request carries several: over HTTP and LiteLLM."""

import threading
from fractions import Fraction
from typing import Any

import pytest
from servers.openai_server import FaultPlan, OpenAIServer, markers

from keqa.evaluation.reports.questions import unreadable
from keqa.lms import build_lm
from keqa.programs import KEQA
from keqa.programs.gates import CertaintyGate, VoteGate
from keqa.programs.records import Cost
from keqa.programs.shared_draws import SharedDraws

pytestmark = pytest.mark.server

QUIZ = "Capital of Norway?"


def oslo(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
    return [markers(answer="Oslo")] * n


@pytest.fixture(params=[True, False], ids=["n", "singly"])
def together(request, monkeypatch):
    """Whether the provider takes several tries in one request."""
    if not request.param:
        monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: False)
    return request.param


def program(api: OpenAIServer, *, cache: bool, **settings: Any) -> KEQA:
    made = KEQA(None, decompose=False, **settings)
    made.set_lm(build_lm("openai/scripted", api_base=api.api_base, api_key="any", num_retries=0, cache=cache))
    return made


def counted(cost: Cost) -> tuple[int, int, int]:
    return cost.samples, cost.lm_requests, cost.calls


def test_four_tries_are_four_lm_calls(together):
    with OpenAIServer(reply=oslo) as api:
        cost = program(api, cache=False)(QUIZ).record.cost
    assert counted(cost) == ((4, 1, 1) if together else (4, 4, 4))


def test_a_cache_answers_tries_that_count_as_before(together, memory_cache):
    with OpenAIServer(reply=oslo) as api:
        asked = program(api, cache=True)
        first, second = (asked(QUIZ).record.cost for _ in range(2))
    assert (first.samples, second.samples, second.calls) == (4, 4, 0)


def test_a_gate_that_reads_shared_draws_is_charged_all_tries(together):
    with OpenAIServer(reply=oslo) as api:
        asked, draws = program(api, cache=False), SharedDraws()
        first, second = (draws.sharing(asked, gate)(QUIZ).record.cost for gate in (VoteGate(), CertaintyGate()))
    assert counted(first) == ((5, 1, 1) if together else (5, 5, 5))
    assert counted(second) == ((5, 1, 0) if together else (5, 5, 0))


def test_a_server_that_ignores_n_is_asked_for_several_twice_and_not_once_a_quiz():
    with OpenAIServer(reply=lambda messages, n, body: oslo(messages, 1, body)) as api:
        asked = program(api, cache=False)
        for quiz in (QUIZ, "Capital of Norway today?", "Which city is the capital of Norway?"):
            record = asked(quiz).record
            assert [sample.text for sample in record.quizzes[0].samples] == ["Oslo"] * 4
    assert [call.n for call in api.calls] == [4, 1, 1, 1] * 2 + [1] * 4


def test_calls_are_those_that_arrived_and_tokens_are_no_less_than_none(monkeypatch):
    monkeypatch.setattr("dspy.clients.execution._delay", lambda error, attempt: 0.0)
    plan = FaultPlan(share=0.7, kinds=("500", "no choices", "close", "429"), seed=1)
    with OpenAIServer(reply=oslo, faults=plan, usage={"prompt_tokens": -9, "completion_tokens": -1}) as api:
        asked = program(api, cache=False)
        asked.set_lm(build_lm("openai/scripted", api_base=api.api_base, api_key="any", num_retries=12, cache=False))
        costs = [asked(f"{QUIZ} ({number})").record.cost for number in range(4)]
        assert sum(cost.calls for cost in costs) == api.count > len(costs) == api.count - api.faults_given.total()
    assert all(role.prompt_tokens == 0 for cost in costs for role in cost.by_role.values())


def test_tries_that_no_reply_came_for_count(together):
    drawn = FaultPlan(share=1.0, kinds=("500",), only=lambda body: body["temperature"] == 1.0)
    with OpenAIServer(reply=oslo, faults=drawn) as api:
        cost = program(api, cache=False)(QUIZ).record.cost
    assert (cost.samples, cost.lm_requests) == ((11, 5) if together else (11, 11))


class OneOfFour:
    """Of every four replies the last cannot be used, whatever requests they are drawn in."""

    def __init__(self, spoilt: str) -> None:
        self.spoilt, self.drawn, self.lock = spoilt, 0, threading.Lock()

    def __call__(self, messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        with self.lock:
            first, self.drawn = self.drawn, self.drawn + n
        return [self.spoilt if place % 4 == 3 else markers(answer="Oslo") for place in range(first, first + n)]


@pytest.mark.parametrize("spoilt", ["no {marker in sight", ""])
def test_every_reply_that_does_not_parse_counts_however_tries_are_sent(together, spoilt):
    with OpenAIServer(reply=OneOfFour(spoilt)) as api:
        record = program(api, cache=False, tries=4, gate=CertaintyGate(Fraction(1, 10)))(QUIZ).record
    # All four are drawn a second time together, and then singly; the one that is spoilt again is drawn once more.
    assert (unreadable(record), record.cost.samples) == ((3, 13) if together else (1, 5))
    assert {note.cause for note in record.degradations} == {"AdapterParseError"}
    assert [sample.text for sample in record.quizzes[0].samples].count("Oslo") == 4
