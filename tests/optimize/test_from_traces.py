"""Which calls of a baseline become demonstrations."""

from __future__ import annotations

import pytest

from keqa.data.example import Example
from keqa.optimize.asking import Trace
from keqa.optimize.demos import from_calls, judges
from keqa.programs.baselines import FLARE, AlwaysRetrieve, IRCoT, ReAct, Rowen, SearChain, SelfRAG, SlimPLM
from keqa.programs.records import QuestionRecord, QuizRecord

PARTY = {"quizzes": ("Which party governs Marton?", "Who leads #1?"), "quiz_answers": ("The Reds", "Robert Torman")}
EXAMPLE = Example("e", "Who leads Marton?", ("Robert Torman",), **PARTY)
ASKED = {"question": EXAMPLE.question, "answer_type": "short", "choices": []}
FROM_PASSAGES = {"passages": ["Torman leads the Reds."], "evidence": [], "triples": [], **ASKED}


def trace(*steps, answer="Torman", score=0.67, quizzes=()):
    record = QuestionRecord(question=EXAMPLE.question, answer=answer, answer_source="passages", quizzes=list(quizzes))
    return Trace(EXAMPLE, record, score, steps)


def found(program, *traces, threshold=0.5):
    pools = from_calls(program, traces, threshold=threshold)
    return {name: [dict(one.demo) for one in pool] for name, pool in pools.items()}


def test_a_right_answer_is_shown_as_the_gold_answer_is_written():
    (demo,) = found(AlwaysRetrieve(None), trace(("answer", FROM_PASSAGES, {"answer": "Torman"})))["answer"]
    assert demo == {**FROM_PASSAGES, "answer": "Robert Torman"}
    assert list(demo) == ["passages", "evidence", "triples", "question", "answer_type", "choices", "answer"]


@pytest.mark.parametrize("wrong", [{"score": 0.4}, {"answer": "Robert Elquist", "score": 0.5}, {"answer": None}])
def test_a_question_that_came_out_wrong_teaches_nothing(wrong):
    step = ("answer", FROM_PASSAGES, {"answer": "Torman"})
    assert found(AlwaysRetrieve(None), trace(step, **wrong)) == {"answer": []}
    assert found(AlwaysRetrieve(None), trace(step), threshold=0.8) == {"answer": []}
    # And keeps no other from teaching.
    assert len(found(AlwaysRetrieve(None), trace(step, **wrong), trace(step))["answer"]) == 1


def test_the_answer_from_memory_that_passages_repaired_is_not_shown():
    rephrased = {**ASKED, "question": "Who is at the head of Marton?"}
    pair = {"quiz": EXAMPLE.question, "first_answer": "Ada Elquist", "second_answer": "Torman"}
    pools = found(
        Rowen(None, reason=False),
        trace(
            ("recall", ASKED, {"answer": "Ada Elquist"}),
            ("recall", rephrased, {"answer": "Ada Elquist"}),
            ("rephrasing.rephrase", {"question": EXAMPLE.question}, {"rephrased": rephrased["question"]}),
            ("same", pair, {"same": True}),
            ("same", {**pair, "second_answer": "Bo Isvik"}, {"same": False}),
            ("read", FROM_PASSAGES, {"answer": "Torman"}),
        ),
    )
    assert pools["recall"] == pools["same"] == []
    assert [demo["answer"] for demo in pools["read"]] == ["Robert Torman"]
    assert pools["rephrasing.rephrase"] == [{"question": EXAMPLE.question, "rephrased": rephrased["question"]}]


def test_verdicts_on_two_answers_follow_rule_9():
    pair = {"quiz": EXAMPLE.question, "first_answer": "Ada Elquist", "second_answer": "Torman"}
    both = {**pair, "first_answer": "Robert Torman"}
    pools = found(Rowen(None, reason=False), trace(("same", pair, {"same": False}), ("same", both, {"same": True})))
    assert pools["same"] == [{**pair, "same": False}, {**both, "same": True}]
    unknown = {**pair, "quiz": "Who else leads Marton?"}
    for same in (False, True):
        assert found(Rowen(None, reason=False), trace(("same", unknown, {"same": same})))["same"] == []


def test_of_answers_from_single_passages_the_right_ones_are_shown():
    other = {**FROM_PASSAGES, "passages": ["Ada Elquist sails."]}
    steps = [("read", other, {"answer": "Ada Elquist"}), ("read", FROM_PASSAGES, {"answer": "Robert Torman"})]
    rated = {"question": EXAMPLE.question, "answer": "Ada Elquist"}
    pools = found(SelfRAG(None, reason=False), trace(*steps, ("reflection.usefulness", rated, {"usefulness": 1})))
    assert [demo["passages"] for demo in pools["read"]] == [["Torman leads the Reds."]]
    # What is judged may be wrong; the judgement is what is shown.
    assert pools["reflection.usefulness"] == [{**rated, "usefulness": 1}]


def test_answers_to_queries_are_checked_where_a_gold_quiz_asks_the_same():
    def step(question, answer):
        return ("answering.answer", {**FROM_PASSAGES, "question": question}, {"answer": answer})

    def query(index, text, answer):
        return QuizRecord(index=index, text=text, resolved=text, answer=answer, source="passages")

    queries = [query(1, "Which party governs Marton?", "The Reds"), query(2, "Is Marton large?", "yes")]
    steps = [step("Which party governs Marton?", "Reds"), step("Is Marton large?", "yes")]
    (right,) = found(SearChain(None), trace(*steps, quizzes=queries))["answering.answer"]
    assert (right["question"], right["answer"]) == ("Which party governs Marton?", "The Reds")
    wrong = [step("Which party governs Marton?", "The Blues"), steps[1]]
    assert found(SearChain(None), trace(*wrong, quizzes=queries))["answering.answer"] == []
    (unknown,) = found(SearChain(None), trace(steps[1], quizzes=queries[1:]))["answering.answer"]
    assert unknown["answer"] == "yes"


def test_calls_that_say_nothing_or_the_same_again_are_left_out():
    said = ("extend", {"passages": [], **ASKED, "thoughts": []}, {"thought": "The Reds govern Marton."})
    silent = ("extend", {"passages": [], **ASKED, "thoughts": ["x"]}, {"thought": " "})
    assert len(found(IRCoT(None), trace(said, silent, said))["extend"]) == 1


def test_beginnings_and_ends_are_of_different_kinds():
    steps = [
        ("extend", {"passages": [], **ASKED, "thoughts": []}, {"thought": "The Reds govern Marton."}),
        ("extend", {"passages": [], **ASKED, "thoughts": ["a"]}, {"thought": "So the answer is Torman."}),
    ]
    assert [one.kind for one in from_calls(IRCoT(None), [trace(*steps)], threshold=0.5)["extend"]] == [
        "0 thoughts",
        "1 thoughts",
    ]
    queries = {"queries": ["Who leads the Reds?"], "answers": ["Torman"]}
    plans = [("plan", {"question": EXAMPLE.question, "verified": verified}, queries) for verified in ([], ["x: y"])]
    pool = from_calls(SearChain(None), [trace(*plans)], threshold=0.5)["plan"]
    assert [one.kind for one in pool] == ["0 verified", "1 verified"]
    turn = {"next_thought": "t", "next_tool_name": "search", "next_tool_args": {"query": "Marton"}}
    end = {"next_thought": "t", "next_tool_name": "finish", "next_tool_args": {}}
    acts = [("act", {**ASKED, "trajectory": ""}, turn), ("act", {**ASKED, "trajectory": "x"}, end)]
    pool = from_calls(ReAct(None), [trace(*acts)], threshold=0.5)["act"]
    assert [one.kind for one in pool] == ["search", "finish"]
    assert pool[0].demo["next_tool_args"] == {"query": "Marton"}


def test_judges_are_those_who_say_a_verdict_and_nothing_else():
    reflection = {f"reflection.{name}" for name in ("relevance", "support", "usefulness")}
    assert judges(SelfRAG(None, reason=False)) == {"retrieve", *reflection}
    assert judges(Rowen(None, reason=False)) == judges(SearChain(None)) == {"same"}
    assert judges(SlimPLM(None, reason=False)) == {"judge"}
    for cls in (AlwaysRetrieve, IRCoT, FLARE, ReAct):
        assert judges(cls(None)) == frozenset()
