"""Draws that gates share: made once for a resolved quiz, whoever asks, and charged to each that reads them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import count

import dspy
import pytest
from dspy.lm15 import ServerError
from fixtures.replies import Replies

from keqa.data.question import question_digest
from keqa.errors import ConfigurationError
from keqa.programs import KEQA
from keqa.programs.calls.session import CallLimiter, Session, within
from keqa.programs.gates import (
    AlwaysRetrieveGate,
    CertaintyGate,
    ConfidenceGate,
    LexicalSimilarityGate,
    NeverRetrieveGate,
    OracleGate,
    ProbabilityGate,
    RandomGate,
    VoteGate,
)
from keqa.programs.shared_draws import SharedDraws
from keqa.storage.journal import Journal

QUIZ = "Capital of Norway?"


def replies(second=None):
    """Draws Oslo, or Bergen each third time; the judge holds the two for different. The second draw may fail."""
    places = count(1)

    def drawn(inputs, config):
        place = next(places)
        return second if second is not None and place == 2 else {"answer": "Bergen" if place % 3 == 0 else "Oslo"}

    return Replies(
        DecomposeQuestion={"quizzes": '["Capital of Norway?", "Mayor of #1?"]'},
        AnswerQuiz=drawn,
        JudgeConsistency={"same": False},
        JudgeUtility={"helpful": True},
        AnswerWithKnowledge={"answer": "Trondheim"},
        StateConfidence={"confidence": "95"},
        Summarize={"explanation": "", "answer": "X"},
    )


@pytest.fixture
def norway(programmed, retriever):
    def make(reply=None, **settings):
        program, engine = programmed(
            KEQA(retriever("A passage."), **{"decompose": False, "workers": 4, **settings}), reply or replies()
        )
        return program, engine

    return make


def quiz_of(program, question=QUIZ, **asked):
    return program(question, **asked).record.quizzes[0]


def texts(quiz):
    return [sample.text for sample in quiz.samples]


def test_all_gates_read_the_same_draws(norway):
    program, engine = norway()
    draws = SharedDraws()
    gates = [VoteGate(), VoteGate(Fraction(3, 5), name="lenient"), CertaintyGate(), LexicalSimilarityGate()]
    gates += [NeverRetrieveGate(), OracleGate({QUIZ: ["Oslo"]}), ConfidenceGate()]
    quizzes = [quiz_of(draws.sharing(program, gate)) for gate in gates]
    assert engine.count["AnswerQuiz"] == 5
    assert len({tuple(texts(quiz)) for quiz in quizzes}) == 1
    assert {(quiz.complete, quiz.consistency_exact) for quiz in quizzes} == {(True, "4/5")}
    # 4 of 5 agree: six of ten pairs, and a certainty of .28.
    assert [quiz.known for quiz in quizzes] == [True, True, False, False, True, True, True]
    assert [quiz.gate for quiz in quizzes] == [gate.name for gate in gates]


def test_gates_that_need_no_draws_make_and_pay_none_unless_an_answer_falls_back(norway):
    program, engine = norway(on_nothing_helpful="largest_cluster")
    draws = SharedDraws()
    for gate in (AlwaysRetrieveGate(), RandomGate(Fraction(1))):
        record = draws.sharing(program, gate)(QUIZ).record
        assert (record.answer, record.quizzes[0].samples) == ("Trondheim", [])
    assert engine.count["AnswerQuiz"] == 0
    program.retriever.passages.clear()
    record = draws.sharing(program, AlwaysRetrieveGate())(QUIZ).record
    assert (record.answer, record.quizzes[0].source) == ("Oslo", "largest_cluster")
    assert draws.sharing(program, VoteGate())(QUIZ).record.answer == "Oslo"
    assert engine.count["AnswerQuiz"] == 5


def test_gates_that_agree_share_the_quizzes_that_follow(norway):
    program, engine = norway(decompose=True)
    draws = SharedDraws()
    asked = [
        [quiz.resolved for quiz in draws.sharing(program, gate)("Who governs it?").record.quizzes]
        for gate in (VoteGate(), NeverRetrieveGate(), AlwaysRetrieveGate())
    ]
    # One that does not agree on the first asks another second.
    assert asked == [[QUIZ, "Mayor of Oslo?"], [QUIZ, "Mayor of Oslo?"], [QUIZ, "Mayor of Trondheim?"]]
    assert engine.count["AnswerQuiz"] == 10


def test_draws_of_questions_from_which_something_is_hidden_are_their_own(norway):
    program, _ = norway()
    quiz, draws = program.examination.quiz, SharedDraws(probabilities=True)
    given = {"quiz": QUIZ, "config": {"temperature": 1.0, "logprobs": True}, "demos": [], "usable": print}
    session = Session(CallLimiter(1), blocking=True)

    def told(**changes):
        with within(session=session, **changes):
            return draws._asked(quiz, 2, "shown", given)[3:]

    assert told() == [{"quiz": QUIZ}, [{"temperature": 1.0}, True, 2], "", "shown"]
    del given["demos"]
    assert told(asked=("Who?", ())) == [{"quiz": QUIZ}, [{"temperature": 1.0}, True, 2], "", ""]
    session.hides = lambda demo, signature: False
    first, second = (told(asked=(question, ("a",)))[2] for question in ("Who?", "Why?"))
    assert (first, first == second) == (question_digest("Who?", ("a",)), False)


def test_questions_in_flight_at_once_wait_for_one_set(norway):
    program, engine = norway()
    engine.latency = 0.05
    draws = SharedDraws()
    programs = [draws.sharing(program, VoteGate()) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        records = list(pool.map(lambda one: one(QUIZ).record, programs))
    assert engine.count["AnswerQuiz"] == 5
    assert sorted(record.cost.by_role["task"].calls for record in records) == [0, 0, 0, 0, 0, 5]


def test_a_wrong_key_is_told_and_forgotten(norway):
    right = []

    def reply(name, inputs, config):
        if not right:
            raise dspy.lm15.AuthError("wrong key")
        return {"answer": "Oslo"}

    shared = SharedDraws().sharing(norway(reply)[0], VoteGate())
    with pytest.raises(ConfigurationError, match="wrong key"):
        shared(QUIZ)
    right.append(True)
    assert shared(QUIZ).answer == "Oslo"


@pytest.mark.parametrize("largest", [0, 5])
def test_sets_in_which_a_call_failed_are_made_again_when_they_are_forgotten(norway, largest):
    reply = replies("no {marker in sight")
    reply.replies["DecomposeQuestion"] = {"quizzes": "[]"}
    program, engine = norway(reply, workers=1, decompose=True)
    draws, outcomes = SharedDraws(largest=largest), []
    for _ in range(3):
        record = draws.sharing(program)(QUIZ).record
        outcomes.append((record.touched, engine.count["AnswerQuiz"], [one.stage for one in record.degradations]))
        draws.forget_failed()
    # What went wrong before the draws stays noted.
    assert outcomes == [(True, 5, ["decompose", "examine", "examine"])] + [(False, 6, ["decompose"])] * 2


def test_a_judge_that_was_not_there_is_asked_again_in_the_next_process(norway, tmp_path):
    reply, down = replies(), [True]
    reply.replies["JudgeConsistency"] = lambda i, c: ServerError("down") if down else {"same": False}
    program, engine = norway(reply)
    with Journal.open(tmp_path / "draws.jsonl", {"task": "gates"}) as journal:
        assert SharedDraws(store=journal).sharing(program)(QUIZ).record.degradations
        down.clear()
        assert not SharedDraws(store=journal).sharing(program)(QUIZ).record.degradations
    assert engine.count["AnswerQuiz"] == 5


def test_a_smaller_number_of_tries_reads_the_first_of_the_largest_and_pays_for_those(norway):
    program, engine = norway()
    draws, found = SharedDraws(largest=6), {}
    for tries in (3, 6, 2):
        program.examination.tries = tries
        record = draws.sharing(program, CertaintyGate())(QUIZ).record
        assert record.cost.by_role["task"].samples == tries + (0 if record.quizzes[0].known else 1)
        found[tries] = record.quizzes[0]
    assert engine.count["AnswerQuiz"] == 6
    whole = texts(found[6])
    for tries, quiz in found.items():
        assert (texts(quiz), quiz.complete) == (whole[:tries], True)
        members = {text: [place for place, one in enumerate(whole[:tries]) if one == text] for text in whole[:tries]}
        assert [cluster.members for cluster in quiz.clusters] == list(members.values())


@pytest.mark.parametrize("tries", [1, 2, 5])
@pytest.mark.parametrize("gate", [VoteGate(), CertaintyGate(), ProbabilityGate(), ConfidenceGate()])
def test_the_first_draws_decide_as_they_would_by_themselves(norway, gate, tries):
    told = []
    for shared in (None, SharedDraws(probabilities=True, largest=5)):
        program, engine = norway(workers=1, tries=tries, gate=gate)
        engine.probability = 0.7
        record = (program if shared is None else shared.sharing(program))(QUIZ).record
        (quiz,) = record.quizzes
        decided = (quiz.known, quiz.consistency_exact, quiz.certainty, quiz.clusters, quiz.answer, quiz.stopped)
        told.append((decided, record.cost.by_role["task"].samples, record.cost.tokens))
    assert told[0] == told[1]
    assert engine.count["AnswerQuiz"] == 5


def test_a_store_keeps_them_beyond_the_process(norway, tmp_path):
    program, engine = norway()
    engine.probability = 0.25
    records = []
    for gate in (VoteGate(), ProbabilityGate()):
        with Journal.open(tmp_path / "draws.jsonl", {"task": "gates"}) as journal:
            records.append(SharedDraws(probabilities=True, store=journal).sharing(program, gate)(QUIZ).record)
    first, second = (record.quizzes[0] for record in records)
    assert engine.count["AnswerQuiz"] == 5
    assert (first.samples, first.clusters) == (second.samples, second.clusters)
    assert [sample.probability for sample in second.samples] == pytest.approx([0.25] * 5)
    assert (first.known, second.known, second.certainty) == (True, False, pytest.approx(0.25))


@pytest.mark.parametrize("change", ["quiz", "seed", "tries", "demonstrations", "choices", "probabilities", "settings"])
def test_other_draws_are_not_shared(norway, change):
    program, engine = norway()
    engine.probability = 0.5
    draws = SharedDraws()
    quiz_of(draws.sharing(program))
    asked, other = {"question": QUIZ}, draws
    if change == "quiz":
        asked["question"] = "Capital of Sweden?"
    elif change == "choices":
        asked |= {"answer_type": "choice", "choices": ["Oslo", "Bergen"]}
    elif change == "demonstrations":
        program.examination.quiz.demos = [dspy.Example(quiz="q", answer="a")]
    elif change == "probabilities":
        other = SharedDraws(probabilities=True)
        other._calls = draws._calls
    elif change == "settings":
        program.examination.quiz.lm.kwargs["max_tokens"] = 100
    else:
        setattr(program.examination, change, 6)
    quiz_of(other.sharing(program), **asked)
    assert engine.count["AnswerQuiz"] > 5


async def test_where_the_maker_is_stopped_or_fails_the_others_try_for_themselves(monkeypatch, norway):
    """Of four that ask the same, one stops waiting, and the first that makes the call fails."""
    program, _ = norway()
    made = []

    async def predict(predictor, **arguments):
        made.append(arguments)
        await asyncio.sleep(0.01)
        if len(made) == 1:
            raise ConfigurationError("wrong key")
        return dspy.Prediction.from_completions([{"answer": "Oslo"}])

    monkeypatch.setattr("keqa.programs.shared_draws.predict", predict)
    draws, session = SharedDraws(), Session(CallLimiter(1), blocking=False)
    tasks = [asyncio.ensure_future(session.run(draws.predict(program.examination.quiz, quiz=QUIZ))) for _ in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    failed, stopped, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert (type(failed), type(stopped)) == (ConfigurationError, asyncio.CancelledError)
    assert [one.answer for one in others] == ["Oslo", "Oslo"]
    assert len(made) == 2


def test_a_gate_by_probability_wants_draws_that_have_them(norway):
    with pytest.raises(ConfigurationError, match=r"needs SharedDraws\(probabilities=True\)"):
        SharedDraws().sharing(norway()[0], ProbabilityGate())
