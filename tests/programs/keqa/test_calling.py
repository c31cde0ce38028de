"""The whole program on a scripted language model: Algorithm 2, its record, its cost, threads and event loops."""

from __future__ import annotations

import asyncio
import threading

import pytest
from fixtures.director_of_up import QUESTION, World

from keqa.programs import KEQA


def test_what_is_known_is_answered_from_memory_and_only_the_rest_is_retrieved(ask):
    prediction, engine = ask()
    first, second = prediction.record.quizzes
    assert (prediction.answer, prediction.explanation) == ("1968", "Pete Docter directed Up.")
    assert (first.known, first.answer, first.source, first.consistency_exact) == (True, "Pete Docter", "memory", "4/5")
    assert (second.known, second.answer, second.source) == (False, "October 9, 1968", "passages")
    assert (second.resolved, second.depends_on) == ("When was Pete Docter born?", [1])
    assert [(p.passage_id, p.verdict, p.kept) for p in second.passages] == [
        ("p0", "helpful", True),
        ("p1", "not helpful", False),
        ("p2", "not helpful", False),
    ]
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == '["Pete Docter was born in 1968."]'
    assert "Who directed Up? Pete Docter" in engine.asked("Summarize")[0]["answered_quizzes"]
    assert "When was Pete Docter born? October 9, 1968" in engine.asked("Summarize")[0]["answered_quizzes"]
    assert prediction.record.degradations == []
    assert prediction.record.answer_source == "summary"


def test_cost_is_counted_by_role(ask):
    prediction, engine = ask()
    cost = prediction.record.cost
    assert {role: part.calls for role, part in cost.by_role.items()} == {"task": 11, "consistency": 6, "utility": 3}
    assert cost.calls == len(engine.calls) == 20
    assert cost.by_role["utility"].prompt_tokens == 30
    assert cost.by_role["utility"].completion_tokens == 9
    # What each predictor cost is told apart, and adds up to the roles.
    assert {name: step.samples for name, step in cost.by_step.items()} == {
        "answering.answer": 1,
        "decomposition.decompose": 1,
        "examination.quiz": 8,
        "examination.same": 6,
        "picking.judge": 3,
        "summarizing.summarize": 1,
    }
    assert sum(step.seconds for step in cost.by_step.values()) == pytest.approx(
        sum(role.seconds for role in cost.by_role.values())
    )
    assert cost.retrievals == 1


def test_async_gives_the_same_story(ask, scripted, retriever):
    lm, _ = scripted(World())
    program = KEQA(retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film."))
    program.set_lm(lm)
    inside = asyncio.run(program.acall(question=QUESTION)).record
    outside = ask()[0].record
    assert inside.model_copy(update={"cost": outside.cost}) == outside
    assert inside.cost.calls == outside.cost.calls


def test_it_can_be_called_where_a_loop_runs(ask):
    async def notebook() -> str:
        return ask()[0].answer

    assert asyncio.run(notebook()) == "1968"


def test_four_quizzes_finish_with_one_worker_and_never_exceed_it(ask):
    quizzes = '["Who directed Up?", "Who directed Cars?", "When was #1 born?", "When was #2 born?"]'
    prediction, engine = ask(world=World(DecomposeQuestion={"quizzes": quizzes}), workers=1)
    assert prediction.answer == "1968"
    assert engine.peak == 1


def test_independent_quizzes_run_side_by_side(scripted, retriever):
    meeting = threading.Barrier(8, timeout=20)  # four draws of each of the two quizzes, or nobody passes

    def answer(inputs, config):
        meeting.wait()
        return {"answer": inputs["quiz"]}

    quizzes = '["Who directed Up?", "Who directed Cars?"]'
    lm, _ = scripted(World(DecomposeQuestion={"quizzes": quizzes}, AnswerQuiz=answer))
    program = KEQA(retriever(), workers=8)
    program.set_lm(lm)
    assert program(question=QUESTION).record.degradations == []
