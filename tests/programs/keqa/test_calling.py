"""The whole program on a scripted language model: Algorithm 2, its record, cost, threads, event loops, and parts."""

import asyncio
import threading

import pytest
from fixtures.director_of_up import QUESTION, World

from keqa.programs import KEQA
from keqa.programs.gates import AlwaysRetrieveGate


def test_async_gives_the_same_story(ask, programmed, retriever):
    program, _ = programmed(
        KEQA(retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film.")), World()
    )
    inside = asyncio.run(program.acall(question=QUESTION)).record
    outside = ask()[0].record
    assert inside.model_copy(update={"cost": outside.cost}) == outside
    assert inside.cost.calls == outside.cost.calls

    async def notebook() -> str:
        return ask()[0].answer

    assert asyncio.run(notebook()) == "1968"


def test_four_quizzes_finish_with_one_worker_and_never_exceed_it(ask):
    quizzes = '["Who directed Up?", "Who directed Cars?", "When was #1 born?", "When was #2 born?"]'
    prediction, engine = ask(world=World(DecomposeQuestion={"quizzes": quizzes}), workers=1)
    assert prediction.answer == "1968"
    assert engine.peak == 1


def test_independent_quizzes_run_side_by_side(programmed, retriever):
    meeting = threading.Barrier(8, timeout=20)  # four draws of each of the two quizzes, or nobody passes

    def answer(inputs, config):
        meeting.wait()
        return {"answer": inputs["quiz"].split()[-1]}

    quizzes = '["Who directed Up?", "Who directed Cars?"]'
    program, _ = programmed(
        KEQA(retriever(), workers=8), World(DecomposeQuestion={"quizzes": quizzes}, AnswerQuiz=answer)
    )
    assert program(question=QUESTION).record.degradations == []


def test_selected_evidence_goes_beside_the_passages_or_instead(ask):
    for select, passages in ((True, '["Pete Docter was born in 1968."]'), ("instead", "[]")):
        prediction, engine = ask(select=select)
        asked = engine.asked("AnswerWithKnowledge")[0]
        assert asked["passages"] == passages
        assert "Pete Docter was born in 1968." in asked["evidence"]
        assert "Pete Docter | born | ?" in asked["triples"]
        assert prediction.record.quizzes[1].evidence == ["Pete Docter was born in 1968."]


@pytest.mark.parametrize(
    ("settings", "source", "answer", "drawn"),
    [
        ({"on_nothing_helpful": "largest_cluster"}, "largest_cluster", "1970", 5),
        ({"on_nothing_helpful": "closed_book"}, "closed_book", "closed", 4),
        ({"on_nothing_helpful": "top_passage"}, "passages", "October 9, 1968", 4),
        ({"examine": False}, "closed_book", "closed", 0),
        # Nothing found is nothing helpful.
        ({"retriever": None}, "largest_cluster", "1970", 5),
    ],
)
def test_nothing_helpful(ask, retriever, settings, source, answer, drawn):
    texts = iter(["1968", "1969", "1970", "1971", "1970"])
    world = World(
        AnswerQuiz=lambda i, c: {"answer": "closed" if c.temperature == 0 else next(texts)},
        JudgeUtility={"helpful": False},
    )
    settings = {**settings, "retriever": retriever()} if "retriever" in settings else settings
    prediction, engine = ask("When?", world, decompose=False, workers=1, **settings)
    assert (prediction.record.answer_source, prediction.answer) == (source, answer)
    draws = [config.temperature for name, _, config in engine.calls if name == "AnswerQuiz" and config.temperature]
    assert (len(draws), prediction.record.quizzes[0].complete) == (drawn, drawn != 4)
    assert prediction.record.degradations == []


def test_the_record_says_why_no_more_was_drawn(ask):
    def stopped(world=None, **settings):
        return [quiz.stopped for quiz in ask(world=world, **settings)[0].record.quizzes]

    assert stopped() == [
        "the draw left could not change verdict or answer",
        "the draw left could not change the verdict",
    ]
    assert stopped(gate=AlwaysRetrieveGate()) == ["the gate decides without a draw"] * 2
    assert stopped(examine=False) == [None, None]
    nothing = World(JudgeUtility={"helpful": False})
    assert stopped(nothing)[1] == "the draw left could not change the verdict; 1 more for the largest cluster"
    assert stopped(tries=1)[0] == "the one draw was made"
