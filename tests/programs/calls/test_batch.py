"""Questions side by side: nothing about an answer depends on what else is in flight."""

import asyncio
import hashlib
import json
from typing import Any

import pytest
from servers.openai_server import OpenAIServer, markers

from keqa.lms import build_lm
from keqa.programs import KEQA
from keqa.programs.baselines import ClosedBook

QUESTIONS = [f"Which of the lakes is the deepest, {number}?" for number in range(8)]
TIMES = {"seconds", "retrieval_seconds"}


def replies(messages: list[dict[str, Any]], n: int, body: dict[str, Any]) -> list[str]:
    """The same to the same request, whenever it comes; samples of one request differ."""
    system, digest = messages[0]["content"], hashlib.sha256(messages[-1]["content"].encode()).digest()
    if "Break the question" in system:
        fields: dict[str, object] = {"quizzes": json.dumps([f"How deep is lake {digest[i] % 9}?" for i in range(3)])}
    elif "Answer the quiz from memory" in system:
        return [markers(answer=f"{digest[i] % (1 + digest[-1] % 3)} metres") for i in range(n)]
    elif "Judge whether the two" in system:
        fields = {"same": digest[0] % 2 == 0}
    elif "Judge whether the passage" in system:
        fields = {"helpful": digest[0] % 3 == 0}
    elif "Explain what" in system:
        fields = {"explanation": "It is the deepest.", "answer": f"lake {digest[0] % 9}"}
    else:
        fields = {"answer": f"{digest[0]} feet"}
    return [markers(**fields)] * n


def outcome(record: Any) -> dict[str, Any]:
    """All of a record but what a clock says."""
    written = record.model_dump(mode="json")
    cost = {name: value for name, value in written["cost"].items() if name not in TIMES}
    parts = {
        part: {name: {key: of for key, of in one.items() if key not in TIMES} for name, one in cost[part].items()}
        for part in ("by_role", "by_step")
    }
    notes = sorted(json.dumps(note, sort_keys=True) for note in written["degradations"])
    return {**written, "degradations": notes, "cost": {**cost, **parts}}


@pytest.mark.server
def test_questions_in_flight_together_end_as_they_do_one_after_the_other(retriever: Any) -> None:
    with OpenAIServer(replies) as server:
        program = KEQA(retriever(*(f"Lake {number} is deep." for number in range(5))), workers=4)
        program.set_lm(build_lm("openai/m", api_base=server.api_base, cache=False))

        async def together() -> list[Any]:
            return [one.record for one in await asyncio.gather(*(program.acall(question=one) for one in QUESTIONS))]

        async def in_turn() -> list[Any]:
            return [(await program.acall(question=one)).record for one in QUESTIONS]

        alone = [outcome(program(question=one).record) for one in QUESTIONS]
        for in_flight in (1, 8):
            found = sorted(program.answer_many(QUESTIONS, in_flight=in_flight), key=lambda one: one.position)
            assert [one.error for one in found] == [None] * len(QUESTIONS)
            assert [outcome(one.record) for one in found] == alone
        for ask in (together, in_turn):
            assert [outcome(record) for record in asyncio.run(ask())] == alone
        assert {quiz["known"] for record in alone for quiz in record["quizzes"]} == {True, False}
        assert server.peak <= 4


def test_a_long_history_of_calls_is_not_searched_for_predictors() -> None:
    program = ClosedBook()
    before = program.named_predictors()
    program.history.append(before[0][1])
    assert program.named_predictors() == before
    assert len(program.history) == 1
