"""What the program degrades to where calls and searches fail, and what always surfaces."""

from __future__ import annotations

import pytest
from dspy.lm15 import AuthError, BillingError, ContextLengthError, RateLimitError, ServerError
from fixtures.director_of_up import QUESTION, World, causes

from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.programs import KEQA, UnansweredError


def test_a_failing_decomposition_leaves_the_question_as_quiz(ask):
    prediction, _ = ask(world=World(DecomposeQuestion="no markers here"))
    assert causes(prediction.record) == [("decompose", None, "AdapterParseError")] * 2
    assert [note.touches for note in prediction.record.degradations] == [False, True]
    assert prediction.record.answer == "October 9, 1968"


def losing(*lost, texts=("Pete Docter",) * 5):
    """Draws these texts, but those of some positions are lost to an outage that lasts."""
    seeds = []

    def answer(inputs, config):
        if config.seed not in seeds:
            seeds.append(config.seed)
        position = seeds.index(config.seed)
        return RateLimitError("slow down") if position in lost else {"answer": texts[position]}

    return answer


def test_a_failed_sample_counts_without_a_vote(ask):
    world = World(AnswerQuiz=losing(1))
    prediction, _ = ask("Who directed Up?", world, decompose=False, workers=1)
    quiz = prediction.record.quizzes[0]
    assert (quiz.known, quiz.consistency_exact, len(quiz.samples)) == (True, "4/5", 5)
    assert [sample.error for sample in quiz.samples].count("LMRateLimitError") == 1
    assert causes(prediction.record) == [("examine", 1, "LMRateLimitError")] * 2
    # Whatever it would have been, four of five agree and the first of them was drawn before it.
    assert not prediction.record.touched


def test_a_verdict_that_hangs_on_draws_that_failed_is_marked(ask):
    prediction, _ = ask("Who directed Up?", World(AnswerQuiz=losing(1, 2)), decompose=False, workers=1)
    quiz = prediction.record.quizzes[0]
    assert (quiz.known, quiz.source) == (False, "passages")
    note = prediction.record.degradations[-1]
    assert (note.stage, note.cause, note.touches) == ("examine", "LMRateLimitError", True)
    assert note.message == "2 of 4 draws failed, with which it could have come out otherwise"


def test_the_answer_of_a_known_quiz_is_marked_where_an_earlier_draw_failed(ask):
    prediction, _ = ask("Who directed Up?", World(AnswerQuiz=losing(0)), decompose=False, workers=1)
    assert (prediction.record.quizzes[0].known, prediction.record.touched) == (True, True)


def test_failed_samples_alone_never_make_a_quiz_known(ask):
    world = World(AnswerQuiz=ServerError("down"), JudgeUtility={"helpful": False})
    with pytest.raises(UnansweredError) as caught:
        ask("Who directed Up?", world, decompose=False)
    record = caught.value.record
    assert (record.answer, record.answer_source, record.quizzes[0].known) == (None, "failed", False)
    assert record.failure.cause == caught.value.cause == "LMServerError"


def test_a_failing_utility_judge_is_not_a_verdict(ask):
    def judge(inputs, config):
        return ServerError("down") if "1968" in inputs["passage"] else {"helpful": False}

    prediction, _ = ask("When?", World(JudgeUtility=judge), decompose=False)
    passages = prediction.record.quizzes[0].passages
    assert [(p.verdict, p.kept) for p in passages] == [("failed", True), ("not helpful", False), ("not helpful", False)]
    told = ["LMServerError", "LMServerError", "NoVerdict"]
    assert causes(prediction.record) == [("judge_utility", 1, cause) for cause in told]
    assert prediction.record.touched


def test_a_failed_judgement_is_left_out_where_another_passage_helps(ask):
    def judge(inputs, config):
        return ServerError("down") if "Up" in inputs["passage"] else {"helpful": True}

    prediction, _ = ask("When?", World(JudgeUtility=judge), decompose=False)
    assert [p.kept for p in prediction.record.quizzes[0].passages] == [True, False, True]


def test_where_an_answer_from_passages_fails_an_unknown_quiz_is_not_answered_from_memory(ask):
    drawn = iter(["1968", "1969", "1970", "1971", "1970"])
    world = World(AnswerQuiz=lambda i, c: {"answer": next(drawn)}, AnswerWithKnowledge=ServerError("down"))
    with pytest.raises(UnansweredError, match=r"answer failed \(LMServerError\)") as caught:
        ask("When?", world, decompose=False, workers=1)
    record = caught.value.record
    assert (record.answer, record.quizzes[0].answer, record.quizzes[0].source) == (None, None, "failed")
    assert [(note.action, note.touches) for note in record.degradations] == [
        ("asked again", False),
        ("left the quiz unanswered", True),
    ]


def test_an_answer_from_passages_is_asked_again_after_an_outage(ask):
    replies = iter([ServerError("down"), {"answer": "1968"}])
    prediction, engine = ask("When?", World(AnswerWithKnowledge=lambda i, c: next(replies)), decompose=False)
    assert (prediction.answer, prediction.record.touched) == ("1968", False)
    assert [config.temperature for name, _, config in engine.calls if name == "AnswerWithKnowledge"] == [0.0, 0.0]


def test_an_empty_answer_is_a_failure(ask):
    world = World(AnswerWithKnowledge={"answer": ""}, AnswerQuiz={"answer": "unknown"})
    with pytest.raises(UnansweredError) as caught:
        ask("When?", world, decompose=False)
    assert causes(caught.value.record) == [("answer", 1, "EmptyAnswerError")] * 5


def test_where_one_quiz_failed_the_question_itself_is_answered_with_retrieval_and_marked(ask):
    def answer(inputs, config):
        return ServerError("down") if "When was Pete" in inputs["question"] else {"answer": "1968"}

    prediction, engine = ask(world=World(AnswerWithKnowledge=answer))
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "failed"]
    assert (record.answer, record.answer_source, record.fallback.source) == ("1968", "fallback", "passages")
    assert record.touched
    assert engine.count["Summarize"] == 0


def test_a_quiz_that_failed_is_not_made_good_from_memory_by_the_question_itself(ask):
    def judge(inputs, config):
        return {"helpful": "Pete" in inputs["quiz"] and "1968" in inputs["passage"]}

    world = World(AnswerWithKnowledge=ServerError("down"), JudgeUtility=judge)
    with pytest.raises(UnansweredError, match="a part of it failed, and no passage helped"):
        ask(world=world)


def test_a_failing_summary_fails_the_question(ask):
    with pytest.raises(UnansweredError, match="summarize failed \\(LMServerError\\)") as caught:
        ask(world=World(Summarize=ServerError("down")))
    record = caught.value.record
    assert [quiz.answer for quiz in record.quizzes] == ["Pete Docter", "October 9, 1968"]
    assert (record.failure.stage, record.answer) == ("summarize", None)
    assert record.cost.calls == 21


def test_a_summary_that_cannot_be_read_gives_way_to_the_question_itself(ask):
    prediction, _ = ask(world=World(Summarize="garbage"))
    record = prediction.record
    assert [quiz.answer for quiz in record.quizzes] == ["Pete Docter", "October 9, 1968"]
    assert record.answer == record.fallback.answer
    assert (record.answer_source, record.fallback.source) == ("fallback", "passages")
    assert causes(record) == [("summarize", None, "AdapterParseError")] * 5


def test_the_answer_in_a_summary_that_cannot_be_read_as_a_whole_is_taken(ask):
    prediction, _ = ask(world=World(Summarize="[[ ## answer ## ]]\n1968\n\nThat is because"))
    assert (prediction.answer, prediction.record.answer_source) == ("1968", "summary")
    assert causes(prediction.record) == [("summarize", None, "AdapterParseError")]


def test_a_failing_search_is_recorded(ask, retriever):
    broken = retriever("Pete Docter was born in 1968.")
    broken.error = RetrievalError("connection refused")
    with pytest.raises(UnansweredError, match=r"retrieve failed \(RetrievalError\): connection refused") as caught:
        ask("When?", decompose=False, retriever=broken)
    assert causes(caught.value.record) == [("retrieve", 1, "RetrievalError")] * 2
    assert caught.value.record.quizzes[0].source == "failed"


def test_an_overflow_is_tried_with_fewer_passages(ask, retriever):
    def answer(inputs, config):
        too_long = inputs["passages"].count("born") > 2
        return ContextLengthError("context length exceeded") if too_long else {"answer": "1968"}

    world = World(JudgeUtility={"helpful": True}, AnswerWithKnowledge=answer)
    prediction, engine = ask("When?", world, decompose=False, retriever=retriever(*["born in 1968"] * 10))
    assert [d.action for d in prediction.record.degradations] == [
        "tried the best 5 of 10 passages",
        "tried the best 2 of 5 passages",
    ]
    assert prediction.answer == "1968"
    assert engine.count["AnswerWithKnowledge"] == 3


def test_a_reply_cut_off_at_the_token_limit_is_no_answer(scripted, retriever):
    lm, engine = scripted(
        World(AnswerWithKnowledge="[[ ## answer ## ]]\nOctober 9, 19", AnswerQuiz={"answer": "no idea"})
    )
    engine.finish_reason = "length"
    program = KEQA(retriever("born in 1968"), decompose=False)
    program.set_lm(lm)
    with pytest.raises(UnansweredError) as caught:
        program(question="When?")
    assert causes(caught.value.record) == [("answer", 1, "TruncatedReplyError")] * 5


@pytest.mark.parametrize("error", [AuthError("bad key"), BillingError("no money")])
@pytest.mark.parametrize("name", ["DecomposeQuestion", "AnswerQuiz", "JudgeConsistency", "JudgeUtility", "Summarize"])
def test_what_only_the_user_can_mend_always_surfaces(ask, error, name):
    with pytest.raises(ConfigurationError, match=r"bad key|no money"):
        ask(world=World(**{name: error}))


def test_it_also_ends_a_batch(scripted, retriever):
    lm, _ = scripted(World(JudgeUtility=AuthError("bad key")))
    program = KEQA(retriever("born in 1968"))
    program.set_lm(lm)
    with pytest.raises(ConfigurationError, match="bad key"):
        list(program.answer_many([QUESTION, QUESTION]))


def test_without_a_language_model_the_message_says_so(retriever):
    with pytest.raises(ConfigurationError, match="No language model is set"):
        KEQA(retriever())(question=QUESTION)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tries": 0},
        {"top_k": 0},
        {"temperature": 0},
        {"threshold": 1.5},
        {"threshold": "most"},
        {"workers": 0},
        {"select": "between"},
        {"on_nothing_helpful": "guess"},
    ],
)
def test_settings_that_cannot_work(retriever, wrong):
    with pytest.raises(ConfigurationError):
        KEQA(retriever(), **wrong)


def test_a_bad_question_makes_no_call(ask):
    with pytest.raises(InputError, match="the question is empty"):
        ask("  \x00 ")
