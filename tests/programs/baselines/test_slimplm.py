"""SlimPLM: when the proxy's answer saves retrieval, what is searched for, and what a failure leads to."""

from __future__ import annotations

from typing import Any

import pytest
from dspy.lm15 import ContextLengthError

from keqa.programs.baselines import SlimPLM

WHO, WHERE = "Who wrote it?", "Where is Ann from?"


class Model:
    """Knows what it is told to know, and says what it is told to say."""

    def __init__(self, *known: str, **said: Any) -> None:
        self.known, self.said = known, said

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        if "two" in inputs.get("passages", "") and "window" in self.said:
            raise ContextLengthError("too long")
        return {
            "ReasonFromMemory": {"reasoning": "Ann wrote it. Ann is from Oslo.", "answer": "Oslo."},
            "JudgeHeuristicAnswer": {"known": inputs.get("question") in self.known},
            "RewriteQueries": {"queries": f'["{WHO}", "{WHERE}"]'},
            "AnswerQuestion": {"answer": "From memory"},
            "AnswerWithKnowledge": {"answer": "From passages"},
            **self.said,
        }[name]


@pytest.fixture
def asked(scripted, retriever):
    def ask(model, *texts, found=None, **settings):
        lm, engine = scripted(model)
        program = SlimPLM(retriever(*texts, found=found), reason=False, **settings)
        program.set_lm(lm)
        record = program(question="Where?").record
        return record, engine, [(one.passage_id, one.kept, one.why) for one in record.quizzes[0].passages]

    return ask


def test_what_is_known_is_answered_from_memory(asked):
    record, engine, _ = asked(Model("Where?"), "text")
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "memory", 0)
    assert engine.count == {"ReasonFromMemory": 1, "JudgeHeuristicAnswer": 1, "AnswerQuestion": 1}
    assert engine.asked("JudgeHeuristicAnswer") == [
        {"question": "Where?", "heuristic_answer": "Ann wrote it. Ann is from Oslo. The answer is Oslo."}
    ]


def test_only_unknown_claims_are_searched_for(asked):
    record, _, passages = asked(Model(WHO), "one", "two", found={WHERE: [1]})
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From passages", "passages", 1)
    assert (record.quizzes[0].known, record.quizzes[0].retrieved) == (False, True)
    assert passages == [("p1", True, f"found by: {WHERE}")]


def test_passages_of_several_queries_take_turns_and_come_once(asked):
    found = {WHO: [0, 1, 2], WHERE: [1, 3]}
    _, engine, passages = asked(Model(), "a", "b", "c", "d", found=found, top_k=3)
    assert [(name, why) for name, _, why in passages] == [
        ("p0", f"found by: {WHO}"),
        ("p1", f"found by: {WHO} | {WHERE}"),
        ("p3", f"found by: {WHERE}"),
    ]
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == '["a", "b", "d"]'
    # Those that do not fit are told apart from those that were read.
    _, _, passages = asked(Model(window="small"), "one", "two", found={WHO: [0], WHERE: [1]})
    assert passages == [("p0", True, f"found by: {WHO}"), ("p1", False, "did not fit")]


@pytest.mark.parametrize(
    "model",
    [Model(WHO, WHERE), Model(RewriteQueries={"queries": "[]"}), Model(RewriteQueries={"queries": "garbage {"})],
)
def test_without_an_unknown_claim_the_question_is_searched_for(asked, model):
    assert asked(model, "text", found={"Where?": [0]})[2] == [("p0", True, "found by: Where?")]


def test_one_query_needs_no_second_judgement_and_more_than_wanted_are_left_out(asked):
    assert asked(Model(), "text", max_queries=1)[1].count["JudgeHeuristicAnswer"] == 1
    record, engine, _ = asked(Model(RewriteQueries={"queries": '["a", "a", "b", "c"]'}), "text", max_queries=2)
    assert (engine.count["JudgeHeuristicAnswer"], record.cost.retrievals) == (3, 2)
