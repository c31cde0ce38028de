"""SlimPLM: when the proxy's answer saves retrieval, what is searched for, and what a failure leads to."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from dspy.lm15 import ContextLengthError

from keqa.programs import UnansweredError
from keqa.programs.baselines import slimplm

SlimPLM = partial(slimplm.SlimPLM, reason=False)


class Model:
    """Knows what it is told to know, and writes the queries that it is told to write."""

    def __init__(self, known: tuple[str, ...] = (), queries: str = '["Who wrote it?", "Where is Ann from?"]') -> None:
        self.known, self.queries = known, queries

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> dict[str, Any] | str:
        return {
            "ReasonFromMemory": {"reasoning": "Ann wrote it. Ann is from Oslo.", "answer": "Oslo."},
            "JudgeHeuristicAnswer": {"known": inputs.get("question") in self.known},
            "RewriteQueries": {"queries": self.queries},
            "AnswerQuestion": {"answer": "From memory"},
            "AnswerWithKnowledge": {"answer": "From passages"},
            "ReasonWithKnowledge": {"reasoning": "So.", "answer": "From passages"},
        }[name]


def asked(scripted, program, model):
    lm, engine = scripted(model)
    program.set_lm(lm)
    return program(question="Where?").record, engine


def test_what_is_known_is_answered_from_memory(scripted, retriever):
    record, engine = asked(scripted, SlimPLM(retriever("text")), Model(known=("Where?",)))
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From memory", "memory", 0)
    assert engine.count == {"ReasonFromMemory": 1, "JudgeHeuristicAnswer": 1, "AnswerQuestion": 1}
    assert engine.asked("JudgeHeuristicAnswer") == [
        {"question": "Where?", "heuristic_answer": "Ann wrote it. Ann is from Oslo. The answer is Oslo."}
    ]


def test_only_unknown_claims_are_searched_for(scripted, retriever):
    found = retriever("one", "two", found={"Where is Ann from?": [1]})
    record, _ = asked(scripted, SlimPLM(found), Model(known=("Who wrote it?",)))
    assert (record.answer, record.answer_source, record.cost.retrievals) == ("From passages", "passages", 1)
    quiz = record.quizzes[0]
    assert (quiz.known, quiz.retrieved) == (False, True)
    assert [(p.passage_id, p.why) for p in quiz.passages] == [("p1", "found by: Where is Ann from?")]


def test_passages_of_several_queries_take_turns_and_come_once(scripted, retriever):
    found = retriever("a", "b", "c", "d", found={"Who wrote it?": [0, 1, 2], "Where is Ann from?": [1, 3]})
    record, engine = asked(scripted, SlimPLM(found, top_k=3), Model())
    assert [p.passage_id for p in record.quizzes[0].passages] == ["p0", "p1", "p3"]
    assert record.quizzes[0].passages[1].why == "found by: Who wrote it? | Where is Ann from?"
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == '["a", "b", "d"]'


def test_passages_that_do_not_fit_are_told_apart_from_those_that_were_read(scripted, retriever):
    def small(name: str, inputs: dict[str, str], config: Any) -> Any:
        if "two" in inputs.get("passages", ""):
            raise ContextLengthError("too long")
        return Model()(name, inputs, config)

    found = retriever("one", "two", found={"Who wrote it?": [0], "Where is Ann from?": [1]})
    record, _ = asked(scripted, SlimPLM(found), small)
    assert [(one.passage_id, one.kept, one.why) for one in record.quizzes[0].passages] == [
        ("p0", True, "found by: Who wrote it?"),
        ("p1", False, "did not fit"),
    ]


@pytest.mark.parametrize(
    "model",
    [Model(known=("Who wrote it?", "Where is Ann from?")), Model(queries="[]"), Model(queries="garbage {")],
)
def test_without_an_unknown_claim_the_question_is_searched_for(scripted, retriever, model):
    record, _ = asked(scripted, SlimPLM(retriever("text", found={"Where?": [0]})), model)
    assert [p.why for p in record.quizzes[0].passages] == ["found by: Where?"]


def test_one_query_needs_no_second_judgement_and_more_than_wanted_are_left_out(scripted, retriever):
    _, engine = asked(scripted, SlimPLM(retriever("text"), max_queries=1), Model())
    assert engine.count["JudgeHeuristicAnswer"] == 1
    record, engine = asked(scripted, SlimPLM(retriever("text"), max_queries=2), Model(queries='["a", "a", "b", "c"]'))
    assert (engine.count["JudgeHeuristicAnswer"], record.cost.retrievals) == (3, 2)


def test_the_proxy_is_the_language_model_of_the_consistency_role(scripted, retriever):
    made = {role: scripted(Model()) for role in ("task", "consistency")}
    lms = SimpleNamespace(task=made["task"][0], consistency=made["consistency"][0], utility=None)
    SlimPLM(retriever("text"), lms=lms)(question="Where?")
    assert made["task"][1].count == {"AnswerWithKnowledge": 1}
    assert set(made["consistency"][1].count) == {"ReasonFromMemory", "JudgeHeuristicAnswer", "RewriteQueries"}


def test_without_a_proxy_the_question_is_unknown(scripted, retriever):
    def mute(name: str, inputs: dict[str, str], config: Any) -> Any:
        return "garbage" if name == "ReasonFromMemory" else Model()(name, inputs, config)

    record, _ = asked(scripted, SlimPLM(retriever("text")), mute)
    assert (record.answer, record.cost.retrievals) == ("From passages", 1)
    assert [d.action for d in record.degradations if d.touches] == ["took the question for unknown"]


def test_without_passages_it_answers_from_memory(scripted, retriever):
    record, _ = asked(scripted, SlimPLM(retriever()), Model())
    assert (record.answer, record.answer_source, record.touched) == ("From memory", "closed_book", False)


def test_passages_that_cannot_be_read_fail_the_question(scripted, retriever):
    def illiterate(name: str, inputs: dict[str, str], config: Any) -> Any:
        return "garbage" if name == "AnswerWithKnowledge" else Model()(name, inputs, config)

    with pytest.raises(UnansweredError, match="answer failed"):
        asked(scripted, SlimPLM(retriever("text")), illiterate)
