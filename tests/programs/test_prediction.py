"""What a program returns is what the rest of DSPy can vote on, write, score and pass on."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from typing import Any

import dspy
import pytest
from dspy.streaming.streamify import streaming_response

from keqa.programs import KEQA
from keqa.programs.prediction import AnswerPrediction, sources_of
from keqa.programs.records import PassageVerdict, QuestionRecord, QuizRecord


def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any]:
    return {
        "DecomposeQuestion": {"quizzes": '["Who is it?", "Where does #1 live?"]'},
        "AnswerQuiz": {"answer": f"a{config.seed}" if "live" in inputs.get("quiz", "") else "Ann"},
        "JudgeConsistency": {"same": False},
        "JudgeUtility": {"helpful": "Bergen" in inputs.get("passage", "")},
        "Summarize": {"explanation": "so", "answer": "Bergen"},
        "AnswerWithKnowledge": {"answer": "Bergen"},
        "AnswerQuestion": {"answer": "Oslo"},
    }[name]


@pytest.fixture
def program(scripted, retriever):
    lm, _ = scripted(reply)
    program = KEQA(retriever("Ann lives in Bergen.", "Bo lives in Oslo."))
    program.set_lm(lm)
    return program


SOURCE = {"title": "", "passage_id": "p0", "text": "Ann lives in Bergen.", "sentences": ["Ann lives in Bergen."]}


def test_fields_are_plain_and_the_record_is_an_attribute(program):
    prediction = program(question="Where does she live?")
    assert prediction.keys() == ["explanation", "sources", "answer"]
    assert dict(prediction) == {"explanation": "so", "sources": [SOURCE], "answer": "Bergen"}
    assert json.loads(json.dumps(dict(prediction))) == dict(prediction)
    assert isinstance(prediction.record, QuestionRecord)
    assert [quiz.source for quiz in prediction.record.quizzes] == ["memory", "passages"]
    assert "record" not in prediction
    assert "QuestionRecord" not in repr(prediction)


def test_the_record_survives_copies(program):
    prediction = program(question="Where does she live?")
    for copied in (
        copy.deepcopy(prediction),
        pickle.loads(pickle.dumps(prediction)),
        prediction.copy(),
        prediction.copy(score=1.0),
    ):
        assert copied.record == prediction.record
        assert copied.answer == "Bergen"


def test_dspy_votes_on_the_answer(program):
    prediction = program(question="Where does she live?")
    other = AnswerPrediction(explanation="so", sources=[], answer="Oslo")
    assert dspy.majority(prediction).answer == "Bergen"
    assert dspy.majority([other, prediction, prediction]).answer == "Bergen"
    ensemble = dspy.Ensemble(reduce_fn=dspy.majority).compile([program, program, program])
    assert ensemble(question="Where does she live?").answer == "Bergen"


def test_the_serializer_of_streaming_takes_it(program):
    async def written() -> list[str]:
        async def streamer():
            yield await program.acall(question="Where does she live?")

        return [line async for line in streaming_response(streamer())]

    data, done = asyncio.run(written())
    assert json.loads(data.removeprefix("data: "))["prediction"] == {
        "explanation": "so",
        "sources": [SOURCE],
        "answer": "Bergen",
    }
    assert done == "data: [DONE]\n\n"


@pytest.mark.parametrize("kind", ["BestOfN", "Refine"])
def test_the_best_of_several_keeps_its_record(program, kind):
    def reward(arguments: dict[str, Any], prediction: dspy.Prediction) -> float:
        return float(prediction.answer == "Bergen")

    best = getattr(dspy, kind)(module=program, N=2, reward_fn=reward, threshold=1.0)
    prediction = best(question="Where does she live?")
    assert (prediction.answer, prediction.record.answer) == ("Bergen", "Bergen")


def test_evaluate_and_parallel(program, tmp_path):
    devset = [dspy.Example(question=f"Where does {who} live?", answer="Bergen").with_inputs("question") for who in "ab"]
    out = tmp_path / "results.json"
    evaluate = dspy.Evaluate(
        devset=devset, metric=dspy.evaluate.answer_exact_match, num_threads=2, save_as_json=str(out)
    )
    assert evaluate(program).score == 100.0
    rows = json.loads(out.read_text())
    assert [row["sources"] for row in rows] == [[SOURCE], [SOURCE]]
    found = dspy.Parallel(num_threads=2, disable_progress_bar=True)([(program, one.inputs()) for one in devset])
    assert [prediction.record.answer for prediction in found] == ["Bergen", "Bergen"]


def passage(name: str, *, kept: bool = True) -> PassageVerdict:
    return PassageVerdict(passage_id=name, title="T", text=name, score=1, verdict="helpful", kept=kept, why="")


def test_the_sources_of_a_fallback_are_those_of_the_question_itself():
    quiz = QuizRecord(index=1, text="q", source="passages", passages=[passage("a"), passage("b", kept=False)])
    fallback = QuizRecord(index=0, text="q", source="passages", passages=[passage("c")])
    record = QuestionRecord(question="q", quizzes=[quiz, quiz], fallback=fallback, answer="x", answer_source="fallback")
    assert [one.id for one in sources_of(record)] == ["c"]
    summary = record.model_copy(update={"fallback": None, "answer_source": "summary"})
    assert [one.id for one in sources_of(summary)] == ["a"]
    failed = record.model_copy(update={"answer": None, "answer_source": "failed"})
    assert sources_of(failed) == []
