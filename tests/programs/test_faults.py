"""A server that fails at 30 % of calls, over HTTP and LiteLLM: nothing crashes, and no failure is an answer."""

import re
import traceback
from typing import Any

import dspy
import pytest
from servers import openai_server as server

from keqa.errors import KeqaError
from keqa.lms import build_lm
from keqa.programs import KEQA, UnansweredError
from keqa.programs.baselines import AlwaysRetrieve, ClosedBook

pytestmark = pytest.mark.server


RIGHT = "Anneliese Østergaard-Whitcombe"
MEMORY = "Bartholomew Fitzgerald-Quincey"


def reply(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
    """Knows the first quiz, not the second, and answers right from the one helpful passage."""
    system, prompt = messages[0]["content"], messages[-1]["content"]
    if "Break the question" in system:
        fields: dict[str, Any] = {"quizzes": '["Who founded the town?", "Who is the wife of #1?"]'}
    elif "Answer the quiz from memory" in system:
        if "founded" in prompt:
            fields = {"answer": MEMORY}
        else:
            return [server.markers(answer=f"Guess {position} of many possible ones") for position in range(n)]
    elif "Judge whether the two answers" in system:
        fields = {"same": "False"}
    elif "Judge whether the passage" in system:
        fields = {"helpful": str("wife" in re.split(r"\[\[ ## passage ## \]\]", prompt)[1])}
    elif "Explain what the answered quizzes" in system:
        fields = {"explanation": "So it is written in the passage.", "answer": RIGHT}
    else:
        fields = {"answer": RIGHT}
    return [server.markers(**fields)] * n


TRUTHFUL = {RIGHT, MEMORY} | {f"Guess {position} of many possible ones" for position in range(5)}


def language_model(api: Any, **settings: Any) -> Any:
    defaults = {"api_base": api.api_base, "api_key": "any", "timeout": 1.0, "num_retries": 0, "cache": False}
    return build_lm("openai/scripted", **(defaults | settings))


@pytest.mark.parametrize("kind", ["hang", "all"])
def test_every_question_ends_in_an_answer_or_a_typed_error(retriever, kind):
    kinds = server.FAULTS if kind == "all" else (kind,)
    plan = server.FaultPlan(share=0.3, kinds=kinds, seed=len(kind))
    found = retriever("The founder's wife was Anneliese Østergaard-Whitcombe.", "The town is old.")
    with server.OpenAIServer(reply=reply, faults=plan, hang_seconds=1.5) as api:
        program = KEQA(found, workers=8)
        program.set_lm(language_model(api, timeout=0.5))
        count = 4 if kind == "hang" else 16
        outcomes = list(program.answer_many([f"Who was the founder's wife? ({i})" for i in range(count)], in_flight=4))
    assert sorted(outcome.position for outcome in outcomes) == list(range(count))
    assert sum(api.faults_given.values()) > 0
    for outcome in outcomes:
        record = outcome.record
        assert record is not None
        if outcome.error is not None:
            assert isinstance(outcome.error, UnansweredError)
            assert (record.answer, record.failure.cause) == (None, outcome.error.cause)
        else:
            assert outcome.answer in TRUTHFUL
        for quiz in record.quizzes:
            assert quiz.answer is None or quiz.answer in TRUTHFUL
            assert all(sample.text in TRUTHFUL for sample in quiz.samples if sample.text is not None)


@pytest.mark.parametrize("status", [401, 500])
def test_a_traceback_holds_no_key_that_a_server_repeats(status):
    key = "sk-proj-Abc123DEF456ghi789JKL"

    def refusing(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        raise server.HTTPFault(status, f"no such key: {key}", "refused")

    with server.OpenAIServer(reply=refusing) as api:
        program = ClosedBook()
        program.set_lm(language_model(api, api_key=key))
        with pytest.raises(KeqaError) as raised:
            program("Who?")
    shown = "".join(traceback.format_exception(raised.value))
    assert "no such key: <secret>" in shown
    assert key not in shown


@pytest.mark.filterwarnings("ignore:Implementing custom LMs:DeprecationWarning")
def test_a_traceback_holds_no_key_that_lies_deeper():
    key = "sk-proj-Abc123DEF456ghi789JKL"

    class Refusing(dspy.BaseLM):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            raise ConnectionError("refused") from ValueError("no such key: " + key)

        async def aforward(self, *args: Any, **kwargs: Any) -> Any:
            return self.forward()

    program = ClosedBook()
    program.set_lm(Refusing("some/model", api_key=key))
    with pytest.raises(KeqaError, match="refused") as raised:
        program("Who?")
    assert key not in "".join(traceback.format_exception(raised.value))


def test_a_context_window_that_is_too_small_for_all_passages(retriever):
    def strict(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
        if messages[-1]["content"].count("wife was") > 2:
            raise server.HTTPFault(400, "This model's maximum context length is 100 tokens.", "context_length_exceeded")
        return reply(messages, n, body)

    with server.OpenAIServer(reply=strict) as api:
        program = AlwaysRetrieve(retriever(*["The founder's wife was Anneliese."] * 8))
        program.set_lm(language_model(api))
        record = program(question="Who?").record
    assert [passage.kept for passage in record.passages] == [True] * 2 + [False] * 6
    assert [degradation.action for degradation in record.degradations] == [
        "tried the best 4 of 8 passages",
        "tried the best 2 of 4 passages",
    ]
