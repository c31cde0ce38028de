"""Algorithm 1: clustering, the verdict, waves that stop early, and draws that are draws."""

import asyncio
import re
from fractions import Fraction
from typing import Any

import dspy
import numpy as np
import pytest
from fixtures.drawing import at_most
from fixtures.replies import Replies
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.data.question import Question
from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, Session, within
from keqa.programs.examination import Examination, Examined, settings_of_draw
from keqa.programs.gate import Draw
from keqa.programs.gates import (
    AlwaysRetrieveGate,
    CertaintyGate,
    Verdict,
    VoteGate,
)

WORDS = ["oslo", "bergen", "narvik", "tromso", "unknown", None]
Judge = dict[tuple[str, str], bool]


class Scripted(Examination):
    """Draws and judgements from a table instead of a language model."""

    def __init__(self, draws: list[str | None], judge: Judge | None = None, gate: Any = None) -> None:
        super().__init__(tries=len(draws), gate=gate)
        self.table, self.judge, self.waves, self.judged = draws, judge or {}, [], 0

    async def _drawn(self, found: Examined, start: int, count: int) -> list[Draw]:
        self.waves.append(count)
        return [Draw(text, None if text else "LMServerError") for text in self.table[start : start + count]]

    async def _means_the_same(self, found: Examined, text: str, first: str) -> bool:
        self.judged += 1
        return text == first or self.judge.get((text, first), False)


def algorithm_1(
    draws: list[str | None], judge: Judge, alpha: Fraction
) -> tuple[bool, str | None, int, list[list[str]]]:
    """The paper's, line by line, on all draws: verdict, A_c, the number of comparisons, and CS."""
    clusters: list[list[str]] = []
    compared = 0
    for text in draws:
        if text is None or is_abstention(text):
            continue
        for members in clusters:
            compared += 1
            if text == members[0] or judge.get((text, members[0]), False):
                members.append(text)
                break
        else:
            clusters.append([text])
    largest = max(clusters, key=len, default=[])
    return Fraction(len(largest), len(draws)) >= alpha, largest[0] if largest else None, compared, clusters


def examine(stage: Examination, *kind: Any, **more: Any) -> tuple[Examined, Session]:
    session = Session(CallLimiter(1), blocking=True)
    return asyncio.run(session.run(stage.run(Question("Where?", *kind), **more))), session


judges = st.dictionaries(st.tuples(st.sampled_from(WORDS[:4]), st.sampled_from(WORDS[:4])), st.booleans())
alphas = st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=20)


@pytest.mark.slow
@settings(max_examples=at_most(250))
@given(draws=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), judge=judges, alpha=alphas)
def test_early_stopping_gives_the_verdict_and_answer_of_all_draws(draws, judge, alpha):
    stage = Scripted(draws, judge, VoteGate(alpha))
    found, session = examine(stage)
    known, answer, compared, _ = algorithm_1(draws, judge, alpha)
    assert found.known is known
    if known:
        assert found.leading == answer
    assert stage.judged <= compared
    asyncio.run(session.run(stage.complete(found)))
    assert (found.known, found.leading) == (known, answer)
    # No draw is made that could not change the largest cluster, and those made are clustered as all would be.
    made = draws[: found.drawn]
    clusters = algorithm_1(made, judge, alpha)[3]
    assert [[draws[position] for position in members] for members in found.clusters] == clusters
    assert len(made) == len(draws) or found.leader_is_fixed


@pytest.mark.parametrize(
    ("draws", "gate", "waves", "known", "answer"),
    [
        (["oslo"] * 5, VoteGate(), [4], True, "oslo"),
        (["oslo", "bergen", "narvik", "tromso", "oslo"], VoteGate(), [4], False, "oslo"),
        (["oslo", "oslo", "bergen", "oslo", "oslo"], VoteGate(), [4, 1], True, "oslo"),
        (["oslo", "oslo", "bergen", "oslo", "bergen"], VoteGate(), [4, 1], False, "oslo"),
        (["unknown", "I don't know.", "", "unknown", "unknown"], VoteGate(), [4], False, None),
        ([None] * 5, VoteGate(), [4], False, None),
        (["oslo", "oslo", "oslo", None, "oslo"], VoteGate(), [4, 1], True, "oslo"),
        # A tie goes to the cluster that came first.
        (["oslo", "bergen", "bergen", "oslo"], VoteGate("0.5"), [2, 1, 1], True, "oslo"),
        (["oslo"] * 27 + ["bergen", "narvik", "tromso"], VoteGate("0.9"), [27], True, "oslo"),
        (["bergen", "narvik", "tromso"] + ["oslo"] * 27, VoteGate("0.9"), [27, 3], True, "oslo"),
        (["oslo"] * 5, CertaintyGate(), [5], True, "oslo"),
        (["oslo"] * 5, AlwaysRetrieveGate(), [], False, None),
    ],
)
def test_waves(draws, gate, waves, known, answer):
    stage = Scripted(draws, {}, gate)
    found, session = examine(stage)
    assert (stage.waves, found.known, found.leading) == (waves, known, answer)
    assert type(gate) is not CertaintyGate or found.verdict.measure == 1.0
    # An answer that falls back wants the largest cluster of all.
    asyncio.run(session.run(stage.complete(found)))
    assert (found.known, found.leading) == (known, algorithm_1(draws, {}, Fraction(1))[1])


def test_a_gate_reads_what_the_quiz_was_asked_with():
    read = []

    class Reading(VoteGate):
        def decide(self, draws):
            read.append((draws.drawn, draws.answers, draws.leading))
            return super().decide(draws)

    stage = Scripted(["oslo", None, "unknown"], {}, Reading("1"))
    found, _ = examine(stage, "choice", ("Oslo", "Bergen"), number=2)
    assert (found.quiz, found.answer_type, found.choices, found.tries) == ("Where?", "choice", ("Oslo", "Bergen"), 3)
    # It is asked before any draw, after a wave, and whether it needed what was lost.
    assert read == [(0, (), None), (3, ("oslo", None, None), "oslo"), (2, ("oslo", None), "oslo")]


@pytest.mark.parametrize(
    ("draws", "gate", "noted"),
    [
        # The draw that failed could have made it known; without it nothing is lost.
        (["oslo", "oslo", "oslo", None, "bergen"], VoteGate(), True),
        (["oslo", "bergen", "narvik", None, "oslo"], VoteGate(), False),
        # An earlier answer might have led, a later one not.
        ([None, "oslo", "oslo", "oslo", "oslo"], VoteGate(), True),
        (["oslo", None, "oslo", "oslo", "oslo"], VoteGate(), False),
        (["oslo", "oslo", "oslo", "oslo", None], CertaintyGate(), True),
    ],
)
def test_a_failure_is_marked_where_it_could_have_come_out_otherwise(draws, gate, noted):
    found, session = examine(Scripted(draws, {}, gate), number=3)
    message = f"1 of {found.drawn} draws failed, with which it could have come out otherwise"
    told = [(one.stage, one.quiz, one.cause, one.message, one.action) for one in session.degradations]
    said = ("examine", 3, "LMServerError", message, "took the verdict of the draws that were made")
    assert told == [said] * noted


@pytest.mark.parametrize(
    "text",
    [
        *["Unknown", "Which city do you mean?", "Please provide more context.", "I'm not sure, but Paris"],
        *["Je ne suis pas sûr, mais Paris", "我不确定，但可能是巴黎"],
    ],
)
def test_what_says_or_asks_that_it_is_unknown_is_an_answer_where_it_is_among_the_choices(text):
    kinds = (("choice", ("Known", text)), ("short", ()))
    found = [examine(Scripted([text] * 2, {}, VoteGate("1")), *kind)[0] for kind in kinds]
    assert [(one.known, one.leading) for one in found] == [(True, text), (False, None)]


# With a language model.


@pytest.fixture
def asking(programmed):
    def made(reply, cache=False, **arguments):
        stage, engine = programmed(Examination(bound=CallLimiter(1), **arguments), reply, cache=cache)
        return stage, engine

    return made


def test_the_judge_is_asked_only_about_answers_that_differ(asking):
    drawn = iter(["Oslo", "oslo.", "The Oslo", "Oslo city", "Oslo"])
    stage, engine = asking(Replies(AnswerQuiz=lambda i, c: {"answer": next(drawn)}, JudgeConsistency={"same": True}))
    assert stage(Question("Capital of Norway?")).known is True
    assert engine.asked("JudgeConsistency") == [
        {"quiz": "Capital of Norway?", "first_answer": "Oslo city", "second_answer": "Oslo"}
    ]
    stage, engine = asking(Replies(AnswerQuiz=lambda i, c: {"answer": next(drawn)}))
    drawn = iter(["Oslo", "A", "a)", "A. Oslo", "oslo"])
    assert stage(Question("Capital of Norway?", "choice", ("Oslo", "Bergen"))).known is True
    assert engine.asked("JudgeConsistency") == []


class OneRequest(Session):
    """Gives texts for a request for several samples, or an error; each further sample is "single"."""

    def __init__(self, *given: Any) -> None:
        super().__init__(CallLimiter(1), blocking=False)
        self.given, self.asked = list(given), []

    async def predict(
        self, predictor: Any, *, config: Any = None, attempt: int = 0, usable: Any = None, nth: int = 0, **inputs: Any
    ) -> dspy.Prediction:
        assert attempt == 0, "a draw is drawn no other way"
        if predictor.role == "consistency":
            return dspy.Prediction.from_completions({"same": [False]})
        self.asked.append((predictor.role, inputs, config))
        said = self.given if "n" in config else ["single"]
        if "n" in config and isinstance(said[0], Exception):
            raise said[0]
        return dspy.Prediction.from_completions({"answer": said})

    def examine(self, stage: Examination, *kind: Any, **more: Any) -> Examined:
        with within(caller=self.predict):
            return asyncio.run(self.run(stage.run(Question("Capital?", *kind), **more)))


def spoilt(count: int) -> CallError:
    error = CallError("AdapterParseError", "no answer", unusable=True)
    error.spoilt = count
    return error


@pytest.mark.parametrize(
    ("given", "answers", "notes"),
    [
        (["Oslo", "Oslo ", "Bergen"], ["Oslo", "Oslo", "Bergen"], []),
        (["Oslo", "Oslo", "Bergen", "Rome"], ["Oslo", "Oslo", "Bergen"], []),
        (["Oslo"], ["Oslo", "single", "single"], []),
        ([spoilt(2)], ["single"] * 3, [("no answer", "all 3 samples drawn again, one by one", False)] * 2),
        (
            [CallError("LMTimeoutError", "late")],
            [None] * 3,
            [("late", "asked again", True), ("late", "counted as 3 samples without a vote", True)],
        ),
    ],
)
def test_several_draws_in_one_request(monkeypatch, given, answers, notes):
    monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: True)
    monkeypatch.setattr("keqa.programs.examination.runs_in_process", lambda lm: False)
    stage, session = Examination(3, CertaintyGate(), temperature=0.5, top_p=0.9, seed=4), OneRequest(*given)
    found = session.examine(stage, "short", ["a"], number=7)
    assert [draw.text for draw in found.made] == answers
    (role, inputs, config), *singly = session.asked
    assert (role, inputs) == ("task", {"quiz": "Capital?", "answer_type": "short", "choices": ["a"]})
    about = Question("Capital?", "short", ["a"])
    assert config == {**settings_of_draw(stage.quiz, 4, about, "0+3", 0.5), "top_p": 0.9, "n": 3}
    drawn = [one["rollout_id"] for _, _, one in singly if "n" not in one]
    places = [place for place, text in enumerate(answers) if text == "single"]
    assert drawn == [settings_of_draw(stage.quiz, 4, about, place, 0.5)["rollout_id"] for place in places]
    noted = [(d.message, d.action, d.harmless) for d in session.degradations if "verdict" not in d.action]
    assert noted == notes
    assert {(d.stage, d.quiz) for d in session.degradations} <= {("examine", 7)}


@pytest.mark.parametrize(
    ("temperature", "supported", "tries", "requests"),
    [(1.0, True, 3, 1), (0.15, True, 3, 3), (1.0, False, 3, 3), (1.0, True, 1, 1)],
)
def test_one_request_is_for_servers_that_take_it_and_draws_far_from_random(
    monkeypatch, temperature, supported, tries, requests
):
    monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: supported)
    session = OneRequest("a", "a", "a")
    session.examine(Examination(tries, CertaintyGate(), temperature))
    assert ["n" in config for _, _, config in session.asked] == [requests < tries] * requests


def test_draws_of_a_server_that_is_sent_a_seed_have_seeds_of_their_own(monkeypatch):
    monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: False)
    stage, session = Examination(3, CertaintyGate()), OneRequest()
    stage.set_lm(dspy.LM("openai/served", seed=7))
    session.examine(stage)
    assert len({config["seed"] for _, _, config in session.asked} - {7}) == 3


class OwnGate:
    """A gate that a user wrote, which says what it is told."""

    name, threshold = "own", None

    def __init__(self, *said: Any) -> None:
        self.said = list(said)

    def decide(self, draws: Any) -> Any:
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        # Such a gate waited for ever.
        (0, "'own' has no verdict and wants 0 draws more: that is 1 or more, with 3 draws left"),
        (-1, "'own' has no verdict and wants -1 draws more"),
        (2, "'own' has no verdict after all 3 draws"),
        *[
            (said, f"'own' must return a Verdict or a number of draws from decide, not {said!r}")
            for said in (None, True, "no", 1.5, float("nan"))
        ],
    ],
)
def test_what_a_gate_says_is_checked(said, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        examine(Scripted(["oslo"] * 3, {}, OwnGate(said)))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"known": "no"}, "True or False of known, which this is not: Verdict(known='no', "),
        ({"known": None}, "True or False of known, which this is not: Verdict(known=None, "),
        (
            {"known": True, "measure": "high"},
            "a finite measure or None, which this is not: Verdict(known=True, measure='h",
        ),
        ({"known": True, "measure": float("nan")}, "a finite measure or None, which this is not: "),
        (
            {"known": True, "why": 3},
            "text or None of why, which this is not: Verdict(known=True, measure=None, why=3, ",
        ),
        ({"known": True, "note": "late"}, "a Degradation or None of note, which this is not: "),
    ],
)
def test_a_verdict_is_checked_where_a_gate_makes_it(said, message):
    with pytest.raises(ConfigurationError, match=re.escape(f"a gate must say {message}")):
        Verdict(**said)


def test_a_gate_may_decide_in_numpy_and_ask_for_more_draws_than_are_left():
    gate = OwnGate(np.int64(99), Verdict(np.bool_(True), np.float64(0.5), "it says so"))
    found, _ = examine(Scripted(["oslo"] * 3, {}, gate))
    assert (found.known, found.verdict.measure, found.drawn, found.stopped) == (True, 0.5, 3, "it says so")
    assert type(found.known) is bool
