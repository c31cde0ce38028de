"""Self-RAG: when it retrieves, which answer it keeps, and what a missing verdict does."""

from __future__ import annotations

from typing import Any

import pytest

from keqa.programs import UnansweredError
from keqa.programs.baselines import SelfRAG


class Model:
    """Answers what a passage says; its verdicts are given by answer, or by the last word of the passage."""

    def __init__(self, **said: Any) -> None:
        self.said = {"retrieve": True, "relevant": {}, "support": {}, "usefulness": {}} | said

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        if name == "DecideRetrieval":
            return {"retrieve": self.said["retrieve"]}
        if name == "AnswerQuestion":
            return {"answer": "From memory"}
        if name in ("AnswerWithKnowledge", "ReasonWithKnowledge"):
            word = inputs["passages"].split("says ")[1].strip('"].')
            return "garbage" if word == "broken" else {"reasoning": f"It says {word}.", "answer": word}
        if name == "JudgeRelevance":
            return {"relevant": self.said["relevant"].get(inputs["passage"].split()[-1], True)}
        if name == "JudgeSupport":
            return {"support": self.said["support"].get(inputs["answer"], "no")}
        return {"usefulness": self.said["usefulness"].get(inputs["answer"], 3)}


@pytest.fixture
def asked(scripted, retriever):
    def ask(model, *texts, found=None, **settings):
        lm, engine = scripted(model)
        program = SelfRAG(retriever(*texts, found=found), **{"reason": False, **settings})
        program.set_lm(lm)
        record = program(question="Who?").record
        return record, engine, [one.why.split("score ")[-1] for one in record.quizzes[0].passages]

    return ask


def test_without_need_it_answers_from_memory_in_two_calls(asked):
    record, engine, _ = asked(Model(retrieve=False), "it says Ann")
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "closed_book", 0)
    assert engine.count == {"DecideRetrieval": 1, "AnswerQuestion": 1}
    assert (record.quizzes[0].known, record.quizzes[0].retrieved) == (True, False)


def test_each_passage_has_an_answer_and_the_best_critique_wins(asked):
    support = {"Ann": "partially", "Bo": "fully", "Cy": "fully"}
    model = Model(relevant={"Cy": False}, support=support, usefulness=dict.fromkeys(support, 5))
    record, engine, scores = asked(model, "it says Ann", "it says Bo", "it says Cy")
    assert (record.answer, record.answer_source) == ("Bo", "passages")
    quiz = record.quizzes[0]
    assert [verdict.kept for verdict in quiz.passages] == [False, True, False]
    assert [verdict.verdict for verdict in quiz.passages] == ["helpful", "helpful", "not helpful"]
    # 1 + 0.5 + 0.5, 1 + 1 + 0.5 and 0 + 1 + 0.5.
    assert scores == ["2", "2.5", "1.5"]
    assert engine.count["AnswerWithKnowledge"] == engine.count["JudgeSupport"] == engine.count["JudgeRelevance"] == 3
    # Usefulness counts from minus one half to one half.
    assert asked(Model(usefulness={"Ann": 1, "Bo": 4}), "it says Ann", "it says Bo")[2] == ["0.5", "1.25"]


def test_weights_change_the_order(asked):
    model = Model(relevant={"Ann": False}, support={"Ann": "fully"})
    assert asked(model, "it says Bo", "it says Ann")[0].answer == "Bo"
    assert asked(model, "it says Bo", "it says Ann", relevance_weight=0.5)[0].answer == "Ann"


def test_of_equal_answers_the_first_passage_is_kept_and_usefulness_is_asked_once(asked):
    record, engine, _ = asked(Model(), "it says Ann", "here it says Ann")
    assert [verdict.kept for verdict in record.quizzes[0].passages] == [True, False]
    assert engine.count["RateUsefulness"] == 1


def test_a_passage_without_an_answer_is_left_out(asked):
    record, _, _ = asked(Model(), "it says broken", "it says Ann")
    touching = [d.action for d in record.degradations if d.touches]
    assert (record.answer, touching) == ("Ann", ["left the passage out"])
    assert record.quizzes[0].passages[0].why == "gave no answer"
    with pytest.raises(UnansweredError, match="no passage that was found could be answered from"):
        asked(Model(), "it says broken")
    record, _, _ = asked(Model(), found={})
    assert (record.answer, record.quizzes[0].known, record.cost.retrievals) == ("From memory", False, 1)
