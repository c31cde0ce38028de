"""The whole program on a scripted language model: Algorithm 2 and what it degrades to."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import dspy
import pytest
from dspy.lm15 import AuthError, BillingError, ContextLengthError, RateLimitError, ServerError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keqa.data.quiz_references import references
from keqa.errors import ConfigurationError, InputError, RetrievalError
from keqa.programs import KEQA, AlwaysRetrieveGate, CertaintyGate, NeverRetrieveGate, QuestionRecord, UnansweredError

QUESTION = "When was the director of Up born?"
QUIZZES = '["Who directed Up?", "When was #1 born?"]'


class World:
    """A language model that knows who directed Up and not when he was born, unless a test says otherwise."""

    def __init__(self, **replies: Any) -> None:
        self.replies = {
            "DecomposeQuestion": {"quizzes": QUIZZES},
            "AnswerQuiz": lambda i, c: {"answer": "Pete Docter" if "directed" in i["quiz"] else f"born {c.seed}"},
            "JudgeConsistency": {"same": False},
            "JudgeUtility": lambda i, c: {"helpful": "1968" in i["passage"]},
            "AnswerWithKnowledge": {"answer": "October 9, 1968"},
            "ConstructTriples": {"triples": '["Pete Docter | born | ?"]'},
            "Summarize": {"explanation": "Pete Docter directed Up.", "answer": "1968"},
        } | replies

    def __call__(self, name: str, inputs: dict[str, str], config: Any) -> Any:
        reply = self.replies[name]
        found = reply(inputs, config) if callable(reply) else reply
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture
def ask(scripted, retriever):
    """Builds a program over a world, asks it, and gives program, prediction and engine."""

    def run(question: str = QUESTION, world: World | None = None, call: dict[str, Any] | None = None, **settings: Any):
        lm, engine = scripted(world or World())
        settings.setdefault("retriever", retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film."))
        program = KEQA(**settings)
        program.set_lm(lm)
        return program(question=question, **(call or {})), engine

    return run


def causes(record: QuestionRecord) -> list[tuple[str, int | None, str]]:
    return [(d.stage, d.quiz, d.cause) for d in record.degradations]


def test_what_is_known_is_answered_from_memory_and_only_the_rest_is_retrieved(ask):
    prediction, engine = ask()
    first, second = prediction.record.quizzes
    assert (prediction.answer, prediction.explanation) == ("1968", "Pete Docter directed Up.")
    assert (first.known, first.answer, first.source, first.consistency_exact) == (True, "Pete Docter", "memory", "4/5")
    assert (second.known, second.answer, second.source) == (False, "October 9, 1968", "passages")
    assert (second.resolved, second.depends_on) == ("When was Pete Docter born?", [1])
    assert [(p.passage_id, p.verdict, p.kept) for p in second.passages] == [
        ("p0", "helpful", True),
        ("p1", "not helpful", False),
        ("p2", "not helpful", False),
    ]
    assert engine.asked("AnswerWithKnowledge")[0]["passages"] == '["Pete Docter was born in 1968."]'
    assert "Who directed Up? Pete Docter" in engine.asked("Summarize")[0]["answered_quizzes"]
    assert "When was Pete Docter born? October 9, 1968" in engine.asked("Summarize")[0]["answered_quizzes"]
    assert prediction.record.degradations == []
    assert prediction.record.answer_source == "summary"


def test_the_record_turns_into_json_and_back(ask):
    record = ask()[0].record
    assert QuestionRecord.model_validate(json.loads(record.model_dump_json())) == record


def test_cost_is_counted_by_role(ask):
    prediction, engine = ask()
    cost = prediction.record.cost
    assert {role: part.calls for role, part in cost.by_role.items()} == {"task": 11, "consistency": 6, "utility": 3}
    assert cost.calls == len(engine.calls) == 20
    assert cost.by_role["utility"].prompt_tokens == 30
    assert cost.by_role["utility"].completion_tokens == 9
    # What each predictor cost is told apart, and adds up to the roles.
    assert {name: step.samples for name, step in cost.by_step.items()} == {
        "answering.answer": 1,
        "decomposition.decompose": 1,
        "examination.quiz": 8,
        "examination.same": 6,
        "picking.judge": 3,
        "summarizing.summarize": 1,
    }
    assert sum(step.seconds for step in cost.by_step.values()) == pytest.approx(
        sum(role.seconds for role in cost.by_role.values())
    )
    assert cost.retrievals == 1
    # decompose, draws of quiz 1, draws of quiz 2, judgements in three turns, search, utility, answer, summary
    assert cost.critical_path.calls == 10
    assert cost.critical_path.seconds <= cost.seconds


def test_async_gives_the_same_story(ask, scripted, retriever):
    lm, _ = scripted(World())
    program = KEQA(retriever("Pete Docter was born in 1968.", "Up is a film.", "Cars is a film."))
    program.set_lm(lm)
    inside = asyncio.run(program.acall(question=QUESTION)).record
    outside = ask()[0].record
    assert inside.model_copy(update={"cost": outside.cost}) == outside
    assert inside.cost.calls == outside.cost.calls


def test_it_can_be_called_where_a_loop_runs(ask):
    async def notebook() -> str:
        return ask()[0].answer

    assert asyncio.run(notebook()) == "1968"


def test_four_quizzes_finish_with_one_worker_and_never_exceed_it(ask):
    quizzes = '["Who directed Up?", "Who directed Cars?", "When was #1 born?", "When was #2 born?"]'
    prediction, engine = ask(world=World(DecomposeQuestion={"quizzes": quizzes}), workers=1)
    assert prediction.answer == "1968"
    assert engine.peak == 1


def test_independent_quizzes_run_side_by_side(scripted, retriever):
    meeting = threading.Barrier(8, timeout=20)  # four draws of each of the two quizzes, or nobody passes

    def answer(inputs, config):
        meeting.wait()
        return {"answer": inputs["quiz"]}

    quizzes = '["Who directed Up?", "Who directed Cars?"]'
    lm, _ = scripted(World(DecomposeQuestion={"quizzes": quizzes}, AnswerQuiz=answer))
    program = KEQA(retriever(), workers=8)
    program.set_lm(lm)
    assert program(question=QUESTION).record.degradations == []


def test_one_program_answers_in_many_threads(scripted, retriever):
    lm, _ = scripted(World(), latency=0.001)
    program = KEQA(retriever("born in 1968"), workers=4)
    program.set_lm(lm)
    outcomes = list(program.answer_many([f"{QUESTION} ({i})" for i in range(20)], in_flight=10))
    assert {outcome.answer for outcome in outcomes} == {"1968"}
    assert sorted(outcome.position for outcome in outcomes) == list(range(20))
    assert all(outcome.record.cost.retrievals == 1 for outcome in outcomes)


# One quiz, answer types.


def test_one_quiz_that_is_the_question_needs_no_summary(ask):
    world = World(DecomposeQuestion={"quizzes": '["who directed Up"]'})
    prediction, engine = ask("Who directed Up?", world)
    assert (prediction.answer, prediction.record.answer_source, prediction.explanation) == ("Pete Docter", "memory", "")
    assert engine.count == {"DecomposeQuestion": 1, "AnswerQuiz": 4}


def test_one_quiz_that_is_not_the_question_is_summarized(ask):
    prediction, engine = ask("Up's director?", World(DecomposeQuestion={"quizzes": '["Who directed Up?"]'}))
    assert engine.count["Summarize"] == 1
    assert prediction.record.answer_source == "summary"


def test_decompose_off_takes_the_question_for_the_quiz(ask):
    prediction, engine = ask("Who directed Up?", decompose=False)
    assert (prediction.answer, engine.count["DecomposeQuestion"]) == ("Pete Docter", 0)


def test_a_question_with_a_hash_of_its_own_is_no_reference(ask):
    prediction, _ = ask("Who directed the #1 film of 2009?", decompose=False)
    assert prediction.record.degradations == []


def test_answer_type_and_choices_travel_to_the_summary_and_not_to_quizzes(ask):
    _, engine = ask(call={"answer_type": "choice", "choices": ["1968", "1970"]})
    assert engine.asked("Summarize")[0]["answer_type"] == "choice"
    assert "1970" in engine.asked("Summarize")[0]["choices"]
    assert {inputs["answer_type"] for inputs in engine.asked("AnswerQuiz")} == {"short"}
    assert {inputs["answer_type"] for inputs in engine.asked("AnswerWithKnowledge")} == {"short"}


def test_answer_type_and_choices_travel_with_a_quiz_that_is_the_question(ask):
    choices = ["1968", "1970"]
    _, engine = ask("When?", decompose=False, call={"answer_type": "choice", "choices": choices})
    for name in ("AnswerQuiz", "AnswerWithKnowledge"):
        assert {inputs["answer_type"] for inputs in engine.asked(name)} == {"choice"}
        assert all("1970" in inputs["choices"] for inputs in engine.asked(name))


def test_traces_hold_complete_demonstrations(scripted, retriever):
    lm, _ = scripted(World())
    program = KEQA(retriever("born in 1968"), select=True)
    program.set_lm(lm)
    with dspy.context(trace=[]):
        program(question=QUESTION)
        trace = list(dspy.settings.trace)
    assert len(trace) == 19
    for predictor, inputs, _ in trace:
        assert set(predictor.signature.input_fields) == set(inputs)


# Parts switched off or replaced.


def test_without_examination_all_is_retrieved(ask):
    prediction, engine = ask(examine=False)
    assert engine.count["AnswerQuiz"] == 0
    assert [quiz.source for quiz in prediction.record.quizzes] == ["passages", "passages"]
    assert {quiz.known for quiz in prediction.record.quizzes} == {None}


def test_without_picking_all_top_k_are_kept(ask):
    prediction, engine = ask(pick=False, top_k=2)
    second = prediction.record.quizzes[1]
    assert engine.count["JudgeUtility"] == 0
    assert [(p.verdict, p.kept) for p in second.passages] == [("unjudged", True), ("unjudged", True)]


@pytest.mark.parametrize(
    ("gate", "retrievals", "draws"),
    [(AlwaysRetrieveGate(), 2, 0), (NeverRetrieveGate(), 0, 8), (CertaintyGate(), 1, 10)],
)
def test_another_gate(ask, gate, retrievals, draws):
    prediction, engine = ask(gate=gate, world=World(JudgeUtility={"helpful": True}))
    assert prediction.record.cost.retrievals == retrievals
    assert engine.count["AnswerQuiz"] == draws or gate == NeverRetrieveGate()
    assert {quiz.gate for quiz in prediction.record.quizzes} == {gate.name}


def test_selected_evidence_goes_beside_the_passages_or_instead(ask):
    for select, passages in ((True, '["Pete Docter was born in 1968."]'), ("instead", "[]")):
        prediction, engine = ask(select=select)
        asked = engine.asked("AnswerWithKnowledge")[0]
        assert asked["passages"] == passages
        assert "Pete Docter was born in 1968." in asked["evidence"]
        assert "Pete Docter | born | ?" in asked["triples"]
        assert prediction.record.quizzes[1].evidence == ["Pete Docter was born in 1968."]


@pytest.mark.parametrize(
    ("setting", "source", "answer"),
    [
        ("largest_cluster", "largest_cluster", "1970"),
        ("closed_book", "closed_book", "closed"),
        ("top_passage", "passages", "October 9, 1968"),
    ],
)
def test_nothing_helpful(ask, setting, source, answer):
    drawn = iter(["1968", "1969", "1970", "1971", "1970"])
    world = World(
        AnswerQuiz=lambda i, c: {"answer": "closed" if c.temperature == 0 else next(drawn)},
        JudgeUtility={"helpful": False},
    )
    prediction, _ = ask("When?", world, decompose=False, workers=1, on_nothing_helpful=setting)
    assert (prediction.record.answer_source, prediction.answer) == (source, answer)
    assert prediction.record.quizzes[0].complete is (setting == "largest_cluster")
    assert prediction.record.degradations == []


def test_nothing_found_is_nothing_helpful(ask, retriever):
    prediction, engine = ask("Where?", decompose=False, retriever=retriever())
    assert prediction.record.answer_source == "largest_cluster"
    assert engine.count["AnswerQuiz"] == 5


def test_without_examination_nothing_helpful_is_closed_book(ask):
    world = World(JudgeUtility={"helpful": False}, AnswerQuiz={"answer": "1968"})
    prediction, engine = ask("When?", world, decompose=False, examine=False)
    assert (prediction.answer, prediction.record.answer_source) == ("1968", "closed_book")
    assert [config.temperature for name, _, config in engine.calls if name == "AnswerQuiz"] == [0.0]


def test_five_abstentions_lead_to_retrieval(ask):
    prediction, _ = ask("When?", World(AnswerQuiz={"answer": "Unknown."}), decompose=False)
    quiz = prediction.record.quizzes[0]
    assert (quiz.known, quiz.consistency_exact, quiz.clusters, quiz.source) == (False, "0/1", [], "passages")


def test_demonstrations_come_from_the_reference_per_quiz_and_passage(ask):
    seen = []

    def reference(quiz: str, passage: str) -> list[dspy.Example]:
        seen.append((quiz, passage))
        return [dspy.Example(quiz="demo quiz", passage=f"demo for {passage}", helpful=True)]

    _, engine = ask("When?", decompose=False, reference=reference)
    assert sorted(seen) == [
        ("When?", "Cars is a film."),
        ("When?", "Pete Docter was born in 1968."),
        ("When?", "Up is a film."),
    ]
    assert sum("demo for Up is a film." in prompt for prompt in engine.prompts) == 1


def test_a_failing_reference_costs_the_passage(ask):
    def reference(quiz: str, passage: str) -> list[dspy.Example]:
        raise OSError("index gone")

    prediction, _ = ask("When?", decompose=False, reference=reference)
    verdicts = [(p.verdict, p.kept) for p in prediction.record.quizzes[0].passages]
    assert verdicts == [("failed", True), ("failed", False), ("failed", False)]
    assert causes(prediction.record)[-1] == ("judge_utility", 1, "NoVerdict")


# References.


def broken(ask, quizzes: str, **replies: Any):
    return ask(world=World(DecomposeQuestion={"quizzes": quizzes}, **replies))


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
    prediction, engine = broken(ask, quizzes)
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == sources
    assert (record.answer, record.answer_source) == ("October 9, 1968", "fallback")
    assert record.fallback.resolved == QUESTION
    assert cause in [d.cause for d in record.degradations]
    assert engine.count["AnswerQuiz"] == engine.count["Summarize"] == 0


def test_a_reference_to_a_later_quiz_changes_the_order(ask):
    prediction, _ = broken(ask, '["When was #2 born?", "Who directed Up?"]')
    assert causes(prediction.record) == [("references", 1, "LaterReference")]
    assert prediction.record.quizzes[0].resolved == "When was Pete Docter born?"
    assert prediction.record.answer_source == "summary"


def test_a_quiz_whose_reference_has_no_answer_is_blocked(ask):
    prediction, _ = broken(
        ask,
        QUIZZES,
        AnswerQuiz={"answer": "unknown"},
        AnswerWithKnowledge=lambda i, c: {"answer": "unknown" if "directed" in i["question"] else "1968"},
    )
    record = prediction.record
    assert [quiz.source for quiz in record.quizzes] == ["passages", "blocked"]
    assert ("references", 2, "Unanswered") in causes(record)
    assert (record.answer, record.answer_source) == ("1968", "fallback")


# Why no more was drawn.


def test_the_record_says_why_no_more_was_drawn(ask):
    def stopped(world=None, **settings):
        return [quiz.stopped for quiz in ask(world=world, **settings)[0].record.quizzes]

    assert stopped() == [
        "the draw left could not change verdict or answer",
        "the draw left could not change the verdict",
    ]
    assert stopped(gate=AlwaysRetrieveGate()) == ["the gate decides without a draw"] * 2
    assert stopped(examine=False) == [None, None]
    nothing = World(JudgeUtility={"helpful": False})
    assert stopped(nothing)[1] == "the draw left could not change the verdict; 1 more for the largest cluster"
    assert stopped(tries=1)[0] == "the one draw was made"


# What is summarized.


SINGLE = json.dumps([QUESTION])


@pytest.mark.parametrize(
    ("settings", "answer", "source", "summaries"),
    [
        ({}, "October 9, 1968", "passages", 0),
        ({"summarize_single": True}, "1968", "summary", 1),
        ({"summarize_single": True, "decompose": False}, "October 9, 1968", "passages", 0),
    ],
)
def test_whether_a_question_that_is_its_own_quiz_is_summarized_is_a_setting(ask, settings, answer, source, summaries):
    prediction, engine = ask(world=World(DecomposeQuestion={"quizzes": SINGLE}), **settings)
    assert (prediction.answer, prediction.record.answer_source) == (answer, source)
    assert engine.count["Summarize"] == summaries
    assert prediction.record.fallback is None


def test_a_single_quiz_whose_summary_cannot_be_used_keeps_its_own_answer(ask):
    world = World(DecomposeQuestion={"quizzes": SINGLE}, Summarize="garbage")
    record = ask(world=world, summarize_single=True)[0].record
    assert (record.answer, record.answer_source, record.fallback) == ("October 9, 1968", "passages", None)
    actions = [note.action for note in record.degradations if note.stage == "summarize"]
    assert actions[-1] == "took the quiz's answer for the answer"


def test_a_single_quiz_that_nothing_answers_is_not_summarized(ask):
    world = World(
        DecomposeQuestion={"quizzes": SINGLE},
        AnswerQuiz={"answer": "unknown"},
        AnswerWithKnowledge={"answer": "unknown"},
    )
    prediction, engine = ask(world=world, summarize_single=True)
    assert (prediction.answer, engine.count["Summarize"]) == ("unknown", 0)


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


@pytest.mark.parametrize("said", [{"explanation": "", "answer": "unknown"}, "garbage"])
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
    world.replies["AnswerWithKnowledge"] = lambda i, c: "garbage" if "Cars" in i["question"] else {"answer": "x"}
    record = ask(world=world, summarize_known=True)[0].record
    assert [quiz.source for quiz in record.quizzes] == ["memory", "failed", "blocked"]
    assert (record.answer, record.answer_source) == ("x", "fallback")


def test_an_overlong_list_is_cut(ask):
    quizzes = json.dumps([f"Who directed film {i}?" for i in range(12)])
    prediction, _ = broken(ask, quizzes)
    assert len(prediction.record.quizzes) == 8
    assert causes(prediction.record) == [("decompose", None, "TooManyQuizzes")]


@pytest.mark.parametrize("quizzes", ["[]", '["", " "]'])
def test_an_empty_list_leaves_the_question_as_quiz(ask, quizzes):
    prediction, _ = broken(ask, quizzes)
    assert [quiz.text for quiz in prediction.record.quizzes] == [QUESTION]
    assert causes(prediction.record) == [("decompose", None, "EmptyDecomposition")]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    quizzes=st.lists(
        st.lists(st.sampled_from(["Who is ", "#1", "#2", "#3", "#12", "＃2", "# 1", "?"]), max_size=3).map("".join),
        max_size=4,
    ),
    silent=st.booleans(),
)
def test_a_placeholder_never_reaches_a_language_model(ask, quizzes, silent):
    world = World(
        DecomposeQuestion={"quizzes": json.dumps(quizzes)},
        AnswerQuiz=lambda i, c: {"answer": "unknown" if silent and "1" in i["quiz"] else "Ann"},
    )
    prediction, engine = ask("Who directed Up?", world)
    assert prediction.answer
    for name, inputs, _ in engine.calls:
        for value in inputs.values():
            assert references(value) == (), (name, inputs)


# Failures.


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
