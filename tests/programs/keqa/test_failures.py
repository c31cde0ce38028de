"""What the program degrades to where calls and searches fail, and what always surfaces.

What a failure of each prompt leads to, where it always fails, is in the stories.
"""

import dspy
import pytest
from dspy.lm15 import AuthError, BillingError, ServerError
from fixtures.director_of_up import QUESTION, World, causes

from keqa.errors import ConfigurationError, InputError
from keqa.programs import KEQA, UnansweredError

DOWN = ServerError("down")


def failed(ask, *asked, match=None, **settings):
    """The record of a question that has no answer."""
    with pytest.raises(UnansweredError, match=match) as caught:
        ask(*asked, **settings)
    record = caught.value.record
    assert (record.answer, record.answer_source, record.failure.cause) == (None, "failed", caught.value.cause)
    return record


@pytest.mark.parametrize(
    ("down", "others", "passages", "told"),
    [
        # A failure is not a verdict: where none is helpful, the best of those not judged is kept.
        ("1968", False, ["failed kept", "not helpful", "not helpful"], ["LMServerError", "LMServerError", "NoVerdict"]),
        ("Up", True, ["helpful kept", "failed", "helpful kept"], ["LMServerError", "LMServerError"]),
    ],
)
def test_a_failing_utility_judge(ask, down, others, passages, told):
    world = World(JudgeUtility=lambda i, c: DOWN if down in i["passage"] else {"helpful": others})
    record = ask("When?", world, decompose=False)[0].record
    assert [f"{p.verdict}{' kept' * p.kept}" for p in record.quizzes[0].passages] == passages
    assert causes(record) == [("judge_utility", 1, cause) for cause in told]
    assert record.touched


def test_where_one_quiz_failed_the_question_itself_is_answered_with_retrieval_and_marked(ask):
    world = World(AnswerWithKnowledge=lambda i, c: DOWN if "When was Pete" in i["question"] else {"answer": "1968"})
    prediction, engine = ask(world=world)
    record = prediction.record
    assert [(quiz.source, quiz.answer) for quiz in record.quizzes] == [("memory", "Pete Docter"), ("failed", None)]
    assert (record.answer, record.answer_source, record.fallback.source) == ("1968", "fallback", "passages")
    assert (record.touched, engine.count["Summarize"]) == (True, 0)


def test_a_quiz_that_failed_is_not_made_good_from_memory_by_the_question_itself(ask):
    def judge(inputs, config):
        return {"helpful": "Pete" in inputs["quiz"] and "1968" in inputs["passage"]}

    world = World(AnswerWithKnowledge=DOWN, JudgeUtility=judge)
    failed(ask, world=world, match="a part of it failed, and no passage helped")


def test_the_answer_in_a_summary_that_cannot_be_read_as_a_whole_is_taken(ask):
    record = ask(world=World(Summarize="[[ ## answer ## ]]\n1968\n\nThat is because"))[0].record
    assert (record.answer, record.answer_source) == ("1968", "summary")
    assert causes(record) == [("summarize", None, "AdapterParseError")]


@pytest.mark.parametrize("error", [AuthError("bad key"), BillingError("no money")])
@pytest.mark.parametrize("name", ["DecomposeQuestion", "AnswerQuiz", "JudgeConsistency", "JudgeUtility", "Summarize"])
def test_what_only_the_user_can_mend_always_surfaces(ask, error, name):
    with pytest.raises(ConfigurationError, match=r"bad key|no money"):
        ask(world=World(**{name: error}))


def test_it_also_ends_a_batch(scripted, retriever):
    program = KEQA(retriever("born in 1968"))
    program.set_lm(scripted(World(JudgeUtility=AuthError("bad key")))[0])
    with pytest.raises(ConfigurationError, match="bad key"):
        list(program.answer_many([QUESTION, QUESTION]))


def test_what_cannot_be_asked_makes_no_call(ask, retriever):
    with pytest.raises(ConfigurationError, match="No language model is set"):
        KEQA(retriever())(question=QUESTION)
    with dspy.context(lm="openai/x"), pytest.raises(ConfigurationError, match="LM, and not 'openai/x'"):
        KEQA(retriever())(question=QUESTION)
    with pytest.raises(InputError, match="the question is empty"):
        ask("  \x00 ")
