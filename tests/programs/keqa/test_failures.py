"""What the program degrades to where calls and searches fail, and what always surfaces.

What a failure of each prompt leads to, where it always fails, is in the stories.
"""

import pytest
from dspy.lm15 import AuthError, BillingError, RateLimitError, ServerError
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
    ("lost", "known", "consistency", "touched"),
    [
        # Whatever it would have been, four of five agree and the first of them was drawn before it.
        ((1,), True, "4/5", False),
        # An earlier answer might have been another.
        ((0,), True, "4/5", True),
        ((1, 2), False, "2/5", True),
    ],
)
def test_samples_lost_to_an_outage_count_without_a_vote(ask, lost, known, consistency, touched):
    seeds = []

    def answer(inputs, config):
        if config.seed not in seeds:
            seeds.append(config.seed)
        return RateLimitError("slow down") if seeds.index(config.seed) in lost else {"answer": "Pete Docter"}

    record = ask("Who directed Up?", World(AnswerQuiz=answer), decompose=False, workers=1)[0].record
    (quiz,) = record.quizzes
    assert (quiz.known, quiz.consistency_exact, record.touched) == (known, consistency, touched)
    assert [sample.error for sample in quiz.samples].count("LMRateLimitError") == len(lost)
    assert {(note.stage, note.quiz, note.cause) for note in record.degradations} == {("examine", 1, "LMRateLimitError")}
    marked = [note.message for note in record.degradations if note.touches]
    of = len(quiz.samples)
    assert marked == [f"{len(lost)} of {of} draws failed, with which it could have come out otherwise"] * touched


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


def test_an_empty_answer_and_one_cut_off_at_the_token_limit_are_failures(ask, scripted, retriever):
    world = World(AnswerWithKnowledge={"answer": ""}, AnswerQuiz={"answer": "unknown"})
    assert causes(failed(ask, "When?", world, decompose=False)) == [("answer", 1, "EmptyAnswerError")] * 5
    lm, engine = scripted(
        World(AnswerWithKnowledge="[[ ## answer ## ]]\nOctober 9, 19", AnswerQuiz={"answer": "no idea"})
    )
    engine.finish_reason = "length"
    program = KEQA(retriever("born in 1968"), decompose=False)
    program.set_lm(lm)
    assert causes(failed(program, "When?")) == [("answer", 1, "TruncatedReplyError")] * 5


def test_where_one_quiz_failed_the_question_itself_is_answered_with_retrieval_and_marked(ask):
    world = World(AnswerWithKnowledge=lambda i, c: DOWN if "When was Pete" in i["question"] else {"answer": "1968"})
    prediction, engine = ask(world=world)
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "failed"]
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
    with pytest.raises(InputError, match="the question is empty"):
        ask("  \x00 ")
