"""Self-RAG: when it retrieves, which answer it keeps, and what a missing verdict does."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from keqa.programs import UnansweredError
from keqa.programs.baselines import self_rag

SelfRAG = partial(self_rag.SelfRAG, reason=False)


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
        assert name == "RateUsefulness"
        return {"usefulness": self.said["usefulness"].get(inputs["answer"], 3)}


def asked(scripted, program, model):
    lm, engine = scripted(model)
    program.set_lm(lm)
    return program(question="Who?").record, engine


def test_without_need_it_answers_from_memory_in_two_calls(scripted, retriever):
    record, engine = asked(scripted, SelfRAG(retriever("it says Ann")), Model(retrieve=False))
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "closed_book", 0)
    assert engine.count == {"DecideRetrieval": 1, "AnswerQuestion": 1}
    assert (record.quizzes[0].known, record.quizzes[0].retrieved) == (True, False)


def test_each_passage_has_an_answer_and_the_best_critique_wins(scripted, retriever):
    model = Model(
        relevant={"Ann": True, "Bo": True, "Cy": False},
        support={"Ann": "partially", "Bo": "fully", "Cy": "fully"},
        usefulness={"Ann": 5, "Bo": 5, "Cy": 5},
    )
    record, engine = asked(scripted, SelfRAG(retriever("it says Ann", "it says Bo", "it says Cy")), model)
    assert (record.answer, record.answer_source) == ("Bo", "passages")
    quiz = record.quizzes[0]
    assert [verdict.kept for verdict in quiz.passages] == [False, True, False]
    assert [verdict.verdict for verdict in quiz.passages] == ["helpful", "helpful", "not helpful"]
    # 1 + 0.5 + 0.5, 1 + 1 + 0.5 and 0 + 1 + 0.5.
    assert [verdict.why.split("score ")[1] for verdict in quiz.passages] == ["2", "2.5", "1.5"]
    assert engine.count["AnswerWithKnowledge"] == engine.count["JudgeSupport"] == engine.count["JudgeRelevance"] == 3


def test_usefulness_counts_from_minus_one_half_to_one_half(scripted, retriever):
    model = Model(usefulness={"Ann": 1, "Bo": 4})
    record, _ = asked(scripted, SelfRAG(retriever("it says Ann", "it says Bo")), model)
    assert [verdict.why.split("score ")[1] for verdict in record.quizzes[0].passages] == ["0.5", "1.25"]


def test_weights_change_the_order(scripted, retriever):
    model = Model(relevant={"Ann": False}, support={"Ann": "fully"})
    passages = retriever("it says Bo", "it says Ann")
    assert asked(scripted, SelfRAG(passages), model)[0].answer == "Bo"
    assert asked(scripted, SelfRAG(passages, relevance_weight=0.5), model)[0].answer == "Ann"


def test_of_equal_answers_the_first_passage_is_kept_and_usefulness_is_asked_once(scripted, retriever):
    record, engine = asked(scripted, SelfRAG(retriever("it says Ann", "here it says Ann")), Model())
    assert [verdict.kept for verdict in record.quizzes[0].passages] == [True, False]
    assert engine.count["RateUsefulness"] == 1


def test_a_passage_without_an_answer_is_left_out(scripted, retriever):
    record, _ = asked(scripted, SelfRAG(retriever("it says broken", "it says Ann")), Model())
    touching = [d.action for d in record.degradations if d.touches]
    assert (record.answer, touching) == ("Ann", ["left the passage out"])
    assert record.quizzes[0].passages[0].why == "gave no answer"


def test_without_any_passage_it_answers_from_memory(scripted, retriever):
    with pytest.raises(UnansweredError, match="no passage that was found could be answered from"):
        asked(scripted, SelfRAG(retriever("it says broken")), Model())
    record, _ = asked(scripted, SelfRAG(retriever(found={})), Model())
    assert (record.answer, record.quizzes[0].known, record.cost.retrievals) == ("From memory", False, 1)


def test_verdicts_that_cannot_be_had_count_nothing_and_ask_for_retrieval(scripted, retriever):
    def reply(name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        return {"answer": "Ann"} if name == "AnswerWithKnowledge" else "garbage"

    record, _ = asked(scripted, SelfRAG(retriever("text")), reply)
    assert (record.answer, record.quizzes[0].passages[0].why.split("score ")[1]) == ("Ann", "0")
    assert [(d.stage, d.action) for d in record.degradations if d.touches] == [
        ("decide_retrieval", "retrieved"),
        *[("criticise", "counted 0")] * 3,
    ]


def test_reasoning_is_the_explanation(scripted, retriever):
    record, _ = asked(scripted, SelfRAG(retriever("it says Ann"), reason=True), Model())
    assert record.explanation == "It says Ann."
