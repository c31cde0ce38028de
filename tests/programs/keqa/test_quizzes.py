"""Lists of quizzes as language models write them, lists of one, what is summarized, and where answer types go."""

import json
from typing import Any

import dspy
import pytest
from fixtures.director_of_up import QUESTION, QUIZZES, World, causes
from fixtures.drawing import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.data.question import references
from keqa.programs import KEQA


def listed(ask, quizzes: str, question: str = QUESTION, **replies: Any):
    return ask(question, World(DecomposeQuestion={"quizzes": quizzes}, **replies))


@pytest.mark.parametrize(
    ("quizzes", "cause", "sources"),
    [
        ('["Who directed Up?", "When was #2 born?"]', "SelfReference", ["skipped", "blocked"]),
        ('["Who directed Up?", "When was #7 born?"]', "MissingReference", ["skipped", "blocked"]),
        ('["Who is #2?", "Who is #1?", "Who directed Up?"]', "ReferenceCycle", ["blocked", "blocked", "skipped"]),
        ('["When was #10 born?"]', "MissingReference", ["blocked"]),
    ],
)
def test_a_broken_reference_has_the_question_answered_with_retrieval(ask, quizzes, cause, sources):
    prediction, engine = listed(ask, quizzes)
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == sources
    assert (record.answer, record.answer_source) == ("October 9, 1968", "fallback")
    assert record.fallback.resolved == QUESTION
    assert cause in [d.cause for d in record.degradations]
    assert engine.count["AnswerQuiz"] == engine.count["Summarize"] == 0


def test_a_reference_to_a_later_quiz_changes_the_order(ask):
    prediction, _ = listed(ask, '["When was #2 born?", "Who directed Up?"]')
    assert causes(prediction.record) == [("references", 1, "LaterReference")]
    assert prediction.record.quizzes[0].resolved == "When was Pete Docter born?"
    assert prediction.record.answer_source == "summary"


def test_a_quiz_whose_reference_has_no_answer_is_blocked(ask):
    prediction, _ = listed(
        ask,
        QUIZZES,
        AnswerQuiz={"answer": "unknown"},
        AnswerWithKnowledge=lambda i, c: {"answer": "unknown" if "directed" in i["question"] else "1968"},
    )
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["passages", "blocked"]
    assert ("references", 2, "Unanswered") in causes(record)
    assert (record.answer, record.answer_source) == ("1968", "fallback")


@pytest.mark.parametrize(
    ("quizzes", "count", "cause"),
    [
        (json.dumps([f"Who directed film {i}?" for i in range(12)]), 8, "TooManyQuizzes"),
        ("[]", 1, "EmptyDecomposition"),
        ('["", " "]', 1, "EmptyDecomposition"),
    ],
)
def test_lists_that_are_too_long_or_empty(ask, quizzes, count, cause):
    record = listed(ask, quizzes)[0].record
    assert (len(record.quizzes), causes(record)) == (count, [("decompose", None, cause)])
    assert count > 1 or record.quizzes[0].text == QUESTION


@pytest.mark.slow
@settings(max_examples=at_most(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    quizzes=st.lists(
        st.lists(st.sampled_from(["Who is ", "#1", "#2", "#3", "#12", "＃2", "# 1", "?"]), max_size=3).map("".join),
        max_size=4,
    ),
    silent=st.booleans(),
)
def test_a_placeholder_never_reaches_a_language_model(ask, quizzes, silent):
    def answer(inputs, config):
        return {"answer": "unknown" if silent and "1" in inputs["quiz"] else "Ann"}

    prediction, engine = listed(ask, json.dumps(quizzes), "Who directed Up?", AnswerQuiz=answer)
    assert prediction.answer
    for name, inputs, _ in engine.calls:
        for value in inputs.values():
            assert references(value) == (), (name, inputs)


def test_one_quiz_that_is_the_question_needs_no_summary(ask):
    prediction, engine = listed(ask, '["who directed Up"]', "Who directed Up?")
    assert (prediction.answer, prediction.record.answer_source, prediction.explanation) == ("Pete Docter", "memory", "")
    assert engine.count == {"DecomposeQuestion": 1, "AnswerQuiz": 4}
    # Another is summarized.
    prediction, engine = listed(ask, '["Who directed Up?"]', "Up's director?")
    assert (engine.count["Summarize"], prediction.record.answer_source) == (1, "summary")


def test_decompose_off_takes_the_question_for_the_quiz(ask):
    prediction, engine = ask("Who directed Up?", decompose=False)
    assert (prediction.answer, engine.count["DecomposeQuestion"]) == ("Pete Docter", 0)
    # A hash of its own is no reference.
    assert ask("Who directed the #1 film of 2009?", decompose=False)[0].record.degradations == []


def test_traces_hold_complete_demonstrations(scripted, retriever):
    program = KEQA(retriever("born in 1968"), select=True)
    program.set_lm(scripted(World())[0])
    with dspy.context(trace=[]):
        program(question=QUESTION)
        trace = list(dspy.settings.trace)
    assert len(trace) == 19
    for predictor, inputs, _ in trace:
        assert set(predictor.signature.input_fields) == set(inputs)


SINGLE = json.dumps([QUESTION])


UNKNOWN = {"AnswerQuiz": {"answer": "unknown"}, "AnswerWithKnowledge": {"answer": "unknown"}}


@pytest.mark.parametrize(
    ("settings", "replies", "answer", "source", "summaries"),
    [
        ({"summarize_single": False}, {}, "October 9, 1968", "passages", 0),
        ({}, {}, "1968", "summary", 1),
        ({"decompose": False}, {}, "October 9, 1968", "passages", 0),
        # A summary that cannot be used, and nothing to summarize.
        ({}, {"Summarize": "garbage {"}, "October 9, 1968", "passages", 5),
        ({}, UNKNOWN, "unknown", "passages", 0),
    ],
)
def test_whether_a_question_that_is_its_own_quiz_is_summarized(ask, settings, replies, answer, source, summaries):
    world = World(DecomposeQuestion={"quizzes": SINGLE}, **replies)
    prediction, engine = ask(world=world, **{"summarize_single": True, **settings})
    record = prediction.record
    assert (record.answer, record.answer_source, record.fallback) == (answer, source, None)
    assert engine.count["Summarize"] == summaries
    actions = [note.action for note in record.degradations if note.stage == "summarize"]
    assert actions[-1:] == ["took the quiz's answer for the answer"] * (summaries > 1)


BLOCKED = '["Who directed Up?", "Who directed Cars?", "When was #2 born?"]'


def half_known(**replies: Any) -> World:
    def from_memory(inputs, config):
        return {"answer": "Pete Docter" if "Up" in inputs["quiz"] else "unknown"}

    def from_passages(inputs, config):
        return {"answer": "unknown" if "Cars" in inputs["question"] else "October 9, 1968"}

    return World(
        DecomposeQuestion={"quizzes": BLOCKED}, AnswerQuiz=from_memory, AnswerWithKnowledge=from_passages, **replies
    )


def test_what_is_known_is_summarized_before_a_blocked_question_falls_back(ask):
    plain = ask(world=half_known())[0].record
    assert (plain.answer, plain.answer_source) == ("October 9, 1968", "fallback")
    prediction, engine = ask(world=half_known(), summarize_known=True)
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "passages", "blocked"]
    assert (record.answer, record.answer_source, record.fallback) == ("1968", "summary", None)
    assert json.loads(engine.asked("Summarize")[0]["answered_quizzes"]) == ["Who directed Up? Pete Docter"]
    notes = [(note.cause, note.action) for note in record.degradations if note.cause == "Unsettled"]
    assert notes == [("Unsettled", "summarized the quizzes that are answered")]


@pytest.mark.parametrize("said", [{"explanation": "", "answer": "unknown"}, "garbage {"])
def test_a_question_that_the_known_does_not_settle_falls_back(ask, said):
    record = ask(world=half_known(Summarize=said), summarize_known=True)[0].record
    assert (record.answer, record.answer_source) == ("October 9, 1968", "fallback")
    assert [note.action for note in record.degradations if note.cause == "Unsettled"] == [
        "summarized the quizzes that are answered",
        "answered the question itself with retrieval",
    ]


def test_the_sound_quizzes_of_a_broken_list_are_asked_where_they_may_settle_it(ask):
    world = World(DecomposeQuestion={"quizzes": '["Who directed Up?", "When was #7 born?"]'})
    record = ask(world=world, summarize_known=True)[0].record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "blocked"]
    assert (record.answer, record.answer_source) == ("1968", "summary")


def test_a_quiz_that_failed_is_never_summarized_away(ask):
    world = half_known()
    world.replies["AnswerWithKnowledge"] = lambda i, c: "garbage {" if "Cars" in i["question"] else {"answer": "x"}
    record = ask(world=world, summarize_known=True)[0].record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "failed", "blocked"]
    assert (record.answer, record.answer_source) == ("x", "fallback")


TOGETHER = {"AnswerQuiz": lambda i, c: {"answer": f"guess {c.seed}"}, "JudgeUtility": {"helpful": True}}


@pytest.mark.parametrize("form", [{}, {"pick": False}])
def test_read_together_the_question_is_answered_over_what_was_found_for_all_its_quizzes(ask, form):
    def reads(inputs: dict[str, str], config: Any) -> dict[str, str]:
        return {"answer": "in 1968" if inputs["question"] == QUESTION else "Pete Docter"}

    world = World(**TOGETHER, AnswerWithKnowledge=reads)
    prediction, engine = ask(world=world, read_together=True, top_k=2, **form)
    record = prediction.record
    assert (record.answer, record.answer_source, record.settled_by) == ("in 1968", "fallback", "quizzes")
    assert [one.kept for one in record.fallback.passages] == [True] * len(record.fallback.passages)
    assert len({one.passage_id for one in record.fallback.passages}) == len(record.fallback.passages) >= 2
    assert (engine.count["Summarize"], engine.count["AnswerWithKnowledge"]) == (0, 3)
    assert record.cost.retrievals == 3
    # What was picked for the quizzes is read, and not judged again.
    assert engine.count["JudgeUtility"] == (0 if form else 4)


@pytest.mark.parametrize(
    "replies",
    [
        # Memory knows who directed Up, which stands in no passage.
        {"JudgeConsistency": {"same": True}},
        TOGETHER | {"AnswerWithKnowledge": lambda i, c: {"answer": "no idea" if i["question"] == QUESTION else "Al"}},
    ],
)
def test_what_is_remembered_or_not_told_together_is_summarized(ask, replies):
    record = ask(world=World(**replies), read_together=True)[0].record
    assert (record.answer, record.answer_source, record.fallback) == ("1968", "summary", None)


def test_reading_together_that_fails_leaves_the_summary(ask):
    def reads(inputs: dict[str, str], config: Any) -> Any:
        return TimeoutError("no reply") if inputs["question"] == QUESTION else {"answer": "Pete Docter"}

    record = ask(world=World(**TOGETHER, AnswerWithKnowledge=reads), read_together=True)[0].record
    assert (record.answer, record.answer_source) == ("1968", "summary")
    assert [one.action for one in record.degradations if one.stage == "answer"][-1] == "summarized the quizzes"


THOUGHT = {"reasoning": "Up is by Pete Docter, who was born in 1968.", "answer": "1968"}


@pytest.mark.parametrize("settle", ["reading", "quizzes"])
def test_reasoning_takes_the_place_of_reading_and_is_the_explanation_of_one(ask, settle):
    world = World(**TOGETHER, ReasonWithKnowledge=THOUGHT, AnswerWithKnowledge={"answer": "1967"})
    record = ask(world=world, settle=settle, reason=True)[0].record
    whole = settle == "reading"
    assert (record.answer, record.explanation) == ("1968", THOUGHT["reasoning"] if whole else record.explanation)
    assert [quiz.reasoning for quiz in record.quizzes] == [THOUGHT["reasoning"]] * (1 if whole else 2)


@pytest.mark.parametrize(
    ("beside", "reads"),
    [
        ({"select": True}, "AnswerWithKnowledge"),
        ({"extract_sentences": 2}, "AnswerWithKnowledge"),
        ({"cite": True}, "AnswerAndCite"),
        ({"unanswered": "say"}, "AnswerFromDocuments"),
    ],
)
def test_where_something_else_reads_nothing_is_reasoned(ask, beside, reads):
    said = {"answer": "1968", "citations": "[1]"}
    prompts = dict.fromkeys(("AnswerWithKnowledge", "AnswerAndCite", "AnswerFromDocuments"), said)
    _, engine = ask(world=World(**TOGETHER, **prompts), reason=True, settle="reading", **beside)
    assert (engine.count[reads], engine.count["ReasonWithKnowledge"]) == (1, 0)
