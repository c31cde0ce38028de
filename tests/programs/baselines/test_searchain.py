"""SearChain: plans of queries that retrieval confirms, corrects and completes."""

from __future__ import annotations

import json

import pytest
from dspy.lm15 import ServerError

from keqa.programs import UnansweredError
from keqa.programs.baselines import SearChain

QUESTION = "Where was the author of It born?"
WHO, WHERE = "Who wrote It?", "Where was Ann born?"
TRUTH = {WHO: "Ann", WHERE: "Oslo"}


def scripted_chain(plans, read=TRUTH, same=False):
    left = iter(plans)

    def reply(name, inputs, config):
        if name == "PlanQueryChain":
            plan = next(left)
            if isinstance(plan, Exception):
                raise plan
            return {"queries": json.dumps(list(plan)), "answers": json.dumps(list(plan.values()))}
        return {
            "AnswerWithKnowledge": lambda: {"answer": read[inputs["question"]]},
            "JudgeConsistency": lambda: {"same": same},
            "Summarize": lambda: {"explanation": "so", "answer": "Oslo"},
            "ReasonWithKnowledge": lambda: {"reasoning": "because", "answer": "Oslo"},
        }[name]()

    return reply


def solved(scripted, retriever, *plans, read=TRUTH, same=False, **settings):
    lm, engine = scripted(scripted_chain(plans, read, same))
    searched = retriever("passage")
    program = SearChain(searched, **settings)
    program.set_lm(lm)
    return program(QUESTION).record, engine, searched


def told(record):
    return [(quiz.text, quiz.answer, quiz.source) for quiz in record.quizzes]


def test_a_plan_that_is_confirmed_ends_the_search(scripted, retriever):
    record, engine, searched = solved(scripted, retriever, {WHO: "Ann", WHERE: "Oslo"})
    assert searched.queries == [WHO, WHERE]
    assert engine.count == {"PlanQueryChain": 1, "AnswerWithKnowledge": 2, "Summarize": 1}
    assert engine.asked("Summarize")[0]["answered_quizzes"] == f'["{WHO} Ann", "{WHERE} Oslo"]'
    assert told(record) == [(WHO, "Ann", "memory"), (WHERE, "Oslo", "memory")]
    assert (record.answer, record.explanation, record.answer_source) == ("Oslo", "so", "summary")
    assert (record.method, record.degradations) == ("searchain", [])


def test_an_unsolved_query_is_completed_and_planned_on(scripted, retriever):
    record, engine, _ = solved(scripted, retriever, {WHO: "unsolved"}, {WHERE: "Unsolved."}, {})
    assert [asked["verified"] for asked in engine.asked("PlanQueryChain")] == [
        "[]",
        f'["{WHO} Ann"]',
        f'["{WHO} Ann", "{WHERE} Oslo"]',
    ]
    assert told(record) == [(WHO, "Ann", "passages"), (WHERE, "Oslo", "passages")]


def test_a_corrected_answer_discards_the_rest_of_the_plan(scripted, retriever):
    record, engine, searched = solved(scripted, retriever, {WHO: "Bo", "Where was Bo born?": "Rome"}, {WHERE: "Oslo"})
    assert searched.queries == [WHO, WHERE]
    assert engine.asked("JudgeConsistency") == [{"quiz": WHO, "first_answer": "Bo", "second_answer": "Ann"}]
    assert engine.asked("PlanQueryChain")[1]["verified"] == f'["{WHO} Ann"]'
    assert told(record) == [(WHO, "Ann", "passages"), (WHERE, "Oslo", "memory")]


def test_an_answer_in_other_words_is_confirmed_by_the_judge(scripted, retriever):
    record, engine, _ = solved(scripted, retriever, {WHO: "Ann Smith"}, same=True)
    assert engine.count["PlanQueryChain"] == 1
    assert told(record) == [(WHO, "Ann Smith", "memory")]


def test_what_passages_do_not_tell_stays_as_planned(scripted, retriever):
    unknown = {WHO: "unknown", WHERE: "unknown"}
    record, engine, _ = solved(scripted, retriever, {WHO: "Ann", WHERE: "unsolved"}, read=unknown)
    assert told(record) == [(WHO, "Ann", "memory"), (WHERE, None, "failed")]
    assert engine.count["PlanQueryChain"] == 1
    assert engine.asked("Summarize")[0]["answered_quizzes"] == f'["{WHO} Ann"]'


def test_a_query_is_gone_through_once(scripted, retriever):
    record, engine, searched = solved(scripted, retriever, {WHO: "unsolved"}, {"who wrote it": "unsolved"})
    assert (searched.queries, engine.count["PlanQueryChain"]) == ([WHO], 2)
    assert len(record.quizzes) == 1


def test_rounds_and_queries_are_limited(scripted, retriever):
    plans = [{f"Who is {i}?": "unsolved", f"What is {i}?": "unsolved"} for i in range(9)]
    read = {query: "Ann" for plan in plans for query in plan}
    _, engine, searched = solved(scripted, retriever, *plans, read=read, max_rounds=2, max_queries=1)
    assert (engine.count["PlanQueryChain"], searched.queries) == (2, ["Who is 0?", "Who is 1?"])


def test_missing_answers_of_a_plan_are_unsolved(scripted, retriever):
    def reply(name, inputs, config):
        if name == "PlanQueryChain" and inputs["verified"] == "[]":
            return {"queries": json.dumps([WHO, WHERE]), "answers": '["Ann"]'}
        return scripted_chain([{}])(name, inputs, config)

    lm, _ = scripted(reply)
    program = SearChain(retriever("passage"))
    program.set_lm(lm)
    assert told(program(QUESTION).record) == [(WHO, "Ann", "memory"), (WHERE, "Oslo", "passages")]


def test_a_failing_plan_answers_from_the_chain_so_far(scripted, retriever):
    record, _, _ = solved(scripted, retriever, {WHO: "unsolved"}, ServerError("down"))
    assert (record.answer, record.answer_source) == ("Oslo", "summary")
    touching = [(note.stage, note.action) for note in record.degradations if note.touches]
    assert touching == [("plan", "answered from the chain so far")]


def test_an_empty_chain_is_answered_with_retrieval(scripted, retriever):
    record, engine, searched = solved(scripted, retriever, {})
    assert (searched.queries, engine.count) == ([QUESTION], {"PlanQueryChain": 1, "ReasonWithKnowledge": 1})
    assert (record.answer, record.answer_source, len(record.passages)) == ("Oslo", "fallback", 1)


def test_the_judge_has_its_own_language_model(scripted, retriever):
    class Roles:
        task, tasked = scripted(scripted_chain([{WHO: "Bo"}, {}]))
        consistency, judging = scripted(scripted_chain([]))
        utility = task

    record = SearChain(retriever("passage"), lms=Roles())(QUESTION).record
    assert (Roles.judging.count, Roles.tasked.count["JudgeConsistency"]) == ({"JudgeConsistency": 1}, 0)
    assert record.answer == "Oslo"


def test_no_conclusion_is_a_typed_failure(scripted, retriever):
    def reply(name, inputs, config):
        if name == "Summarize":
            raise ServerError("down")
        return scripted_chain([{WHO: "Ann"}])(name, inputs, config)

    lm, _ = scripted(reply)
    program = SearChain(retriever("passage"))
    program.set_lm(lm)
    with pytest.raises(UnansweredError) as failure:
        program(QUESTION)
    assert (failure.value.stage, len(failure.value.record.quizzes)) == ("summarize", 1)
