"""SearChain: plans of queries that retrieval confirms, corrects and completes."""

import json

import pytest

from keqa.programs.baselines import SearChain

QUESTION = "Where was the author of It born?"
WHO, WHERE = "Who wrote It?", "Where was Ann born?"
TRUTH = {WHO: "Ann", WHERE: "Oslo"}


def chain(plans, read=TRUTH, same=False, summary=None):
    left = iter(plans)

    def reply(name, inputs, config):
        if name == "PlanQueryChain":
            plan = next(left, {})
            if isinstance(plan, Exception):
                raise plan
            answers = [answer for answer in plan.values() if answer is not None]
            return {"queries": json.dumps(list(plan)), "answers": json.dumps(answers)}
        if name == "Summarize" and summary is not None:
            raise summary
        return {
            "AnswerWithKnowledge": {"answer": read.get(inputs.get("question"))},
            "JudgeConsistency": {"same": same},
            "Summarize": {"explanation": "so", "answer": "Oslo"},
            "ReasonWithKnowledge": {"reasoning": "because", "answer": "Oslo"},
        }[name]

    return reply


@pytest.fixture
def solved(asked):
    def solve(*plans, read=TRUTH, same=False, summary=None, **settings):
        return asked(SearChain, chain(plans, read, same, summary), "passage", question=(QUESTION,), **settings)

    return solve


def told(record):
    return [(quiz.text, quiz.answer, quiz.source) for quiz in record.quizzes]


def test_an_unsolved_query_is_completed_and_planned_on(solved):
    record, engine, _ = solved({WHO: "unsolved"}, {WHERE: "Unsolved."}, {})
    verified = ["[]", f'["{WHO} Ann"]', f'["{WHO} Ann", "{WHERE} Oslo"]']
    assert [asked["verified"] for asked in engine.asked("PlanQueryChain")] == verified
    assert told(record) == [(WHO, "Ann", "passages"), (WHERE, "Oslo", "passages")]
    # An answer that a plan lacks is unsolved.
    assert told(solved({WHO: "Ann", WHERE: None})[0]) == [(WHO, "Ann", "memory"), (WHERE, "Oslo", "passages")]


def test_a_corrected_answer_discards_the_rest_of_the_plan(solved):
    record, engine, queries = solved({WHO: "Bo", "Where was Bo born?": "Rome"}, {WHERE: "Oslo"})
    assert queries == [WHO, WHERE]
    assert engine.asked("JudgeConsistency") == [{"quiz": WHO, "first_answer": "Bo", "second_answer": "Ann"}]
    assert engine.asked("PlanQueryChain")[1]["verified"] == f'["{WHO} Ann"]'
    assert told(record) == [(WHO, "Ann", "passages"), (WHERE, "Oslo", "memory")]


def test_what_passages_do_not_tell_stays_as_planned(solved):
    record, engine, _ = solved({WHO: "Ann", WHERE: "unsolved"}, read={WHO: "unknown", WHERE: "unknown"})
    assert told(record) == [(WHO, "Ann", "memory"), (WHERE, None, "failed")]
    assert engine.count["PlanQueryChain"] == 1
    assert engine.asked("Summarize")[0]["answered_quizzes"] == f'["{WHO} Ann"]'


def test_queries_come_once_and_rounds_and_queries_are_limited(solved):
    _, engine, queries = solved({WHO: "unsolved"}, {"who wrote it": "unsolved"})
    assert (queries, engine.count["PlanQueryChain"]) == ([WHO], 2)
    plans = [{f"Who is {i}?": "unsolved", f"What is {i}?": "unsolved"} for i in range(9)]
    read = {query: "Ann" for plan in plans for query in plan}
    _, engine, queries = solved(*plans, read=read, max_rounds=2, max_queries=1)
    assert (engine.count["PlanQueryChain"], queries) == (2, ["Who is 0?", "Who is 1?"])
