"""Algorithm 1: clustering, the verdict, waves that stop early, and draws that are draws."""

from __future__ import annotations

import asyncio
import re
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import dspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.metrics.answers import is_abstention
from keqa.programs.calls.errors import CallError
from keqa.programs.calls.session import CallLimiter, Session, within
from keqa.programs.gates import (
    AlwaysRetrieveGate,
    CertaintyGate,
    NeverRetrieveGate,
    ProbabilityGate,
    VoteGate,
    leader_is_fixed,
)
from keqa.programs.stages.examination import Assessment, Draw, Examination, draw_identity

WORDS = ["oslo", "bergen", "narvik", "tromso", "unknown", None]


class Scripted(Examination):
    """Draws and judgements from a table instead of a language model."""

    def __init__(self, draws: list[str | None], judge: dict[tuple[str, str], bool], gate: Any) -> None:
        super().__init__(tries=len(draws), gate=gate)
        self.table, self.judge, self.waves, self.judged = draws, judge, [], 0

    async def _draw(self, found: Assessment, count: int) -> None:
        start = len(found.draws)
        self.waves.append(count)
        found.draws += [Draw(text, None if text else "LMServerError") for text in self.table[start : start + count]]
        await self._place(found, start)

    async def _means_the_same(self, found: Assessment, text: str, first: str) -> bool:
        self.judged += 1
        return text == first or self.judge.get((text, first), False)


def algorithm_1(
    draws: list[str | None], judge: dict[tuple[str, str], bool], alpha: Fraction
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


def examine(stage: Examination) -> tuple[Assessment, Session]:
    session = Session(CallLimiter(1), blocking=True)
    return asyncio.run(session.run(stage.run("Where?"))), session


judges = st.dictionaries(st.tuples(st.sampled_from(WORDS[:4]), st.sampled_from(WORDS[:4])), st.booleans())
alphas = st.fractions(min_value=Fraction(1, 20), max_value=1, max_denominator=20)


@pytest.mark.slow
@settings(max_examples=600)
@given(draws=st.lists(st.sampled_from(WORDS), min_size=1, max_size=12), judge=judges, alpha=alphas)
def test_early_stopping_gives_the_verdict_and_answer_of_all_draws(draws, judge, alpha):
    stage = Scripted(draws, judge, VoteGate(alpha))
    found, session = examine(stage)
    known, answer, compared, _ = algorithm_1(draws, judge, alpha)
    assert found.known is known
    if known:
        assert found.answer == answer
    assert len(found.draws) <= len(draws)
    assert stage.judged <= compared
    asyncio.run(session.run(stage.complete(found)))
    assert (found.known, found.answer) == (known, answer)
    assert found.stopped
    # No draw is made that could not change the largest cluster, and those made are clustered as all would be.
    made = draws[: len(found.draws)]
    clusters = algorithm_1(made, judge, alpha)[3]
    assert [[draws[position] for position in members] for members in found.clusters] == clusters
    assert len(made) == len(draws) or leader_is_fixed(found.votes)
    assert all(members == sorted(members) for members in found.clusters)


@pytest.mark.slow
@settings(max_examples=200)
@given(draws=st.lists(st.sampled_from(WORDS), min_size=1, max_size=9), judge=judges)
def test_a_gate_that_never_retrieves_still_finds_the_largest_cluster(draws, judge):
    found, _ = examine(Scripted(draws, judge, NeverRetrieveGate()))
    assert found.known is True
    assert found.answer == algorithm_1(draws, judge, Fraction(1))[1]


@pytest.mark.parametrize(
    ("draws", "waves", "known"),
    [
        (["oslo"] * 5, [4], True),
        (["oslo", "bergen", "narvik", "tromso", "oslo"], [4], False),
        (["oslo", "oslo", "bergen", "oslo", "oslo"], [4, 1], True),
        (["oslo", "oslo", "bergen", "oslo", "bergen"], [4, 1], False),
        (["unknown"] * 5, [4], False),
        ([None] * 5, [4], False),
        (["oslo", "oslo", "oslo", None, "oslo"], [4, 1], True),
    ],
)
def test_waves_for_the_papers_setting(draws, waves, known):
    stage = Scripted(draws, {}, VoteGate(Fraction(4, 5)))
    found, _ = examine(stage)
    assert (stage.waves, found.known) == (waves, known)


def test_a_gate_reads_what_the_quiz_was_asked_with():
    read = []

    class Reading(VoteGate):
        def decide(self, votes):
            read.append(votes)
            return super().decide(votes)

    stage = Scripted(["oslo", None, "unknown"], {}, Reading("1"))
    found = asyncio.run(stage.aforward("Where?", "choice", ("Oslo", "Bergen"), 2, place="q1.2"))
    votes = read[-1]
    assert (votes.quiz, votes.answer_type, votes.choices, votes.place) == (
        "Where?",
        "choice",
        ("Oslo", "Bergen"),
        "q1.2",
    )
    assert (votes.tries, votes.drawn, votes.answers, votes.leading) == (3, 2, ("oslo", None), "oslo")
    assert (found.number, found.place) == (2, "q1.2")


def test_27_of_30_reach_nine_tenths():
    stage = Scripted(["oslo"] * 27 + ["bergen", "narvik", "tromso"], {}, VoteGate(Fraction("0.9")))
    assert examine(stage)[0].known is True


def test_27_votes_suffice_where_the_last_ones_bring_them():
    stage = Scripted(["bergen", "narvik", "tromso"] + ["oslo"] * 27, {}, VoteGate(Fraction("0.9")))
    found, _ = examine(stage)
    assert (found.known, found.votes.consistency) == (True, Fraction(9, 10))


def test_samples_are_compared_with_the_first_member_only():
    judge = {("bergen", "oslo"): True, ("narvik", "bergen"): True}
    found, _ = examine(Scripted(["oslo", "bergen", "narvik"], judge, CertaintyGate(Fraction(1, 2))))
    assert found.clusters == [[0, 1], [2]]


def test_a_tie_goes_to_the_cluster_that_came_first():
    found, _ = examine(Scripted(["oslo", "bergen", "bergen", "oslo"], {}, VoteGate(Fraction(1, 2))))
    assert (found.known, found.answer) == (True, "oslo")


def test_five_abstentions_are_unknown():
    found, _ = examine(Scripted(["unknown", "I don't know.", "", "unknown", "unknown"], {}, VoteGate()))
    assert (found.known, found.answer, found.clusters) == (False, None, [])


def test_an_option_that_says_unknown_is_an_answer_where_it_is_among_the_choices():
    draws = ["Unknown", "Unknown"]
    found = [
        asyncio.run(Scripted(draws, {}, VoteGate("1")).aforward("Where?", *kind))
        for kind in (("choice", ("Known", "Unknown")), ("short", ()))
    ]
    assert [(one.known, one.answer) for one in found] == [(True, "Unknown"), (False, None)]


def test_a_certainty_gate_draws_all_at_once():
    stage = Scripted(["oslo"] * 5, {}, CertaintyGate())
    found, _ = examine(stage)
    assert (stage.waves, found.known, found.certainty) == ([5], True, 1.0)


def test_always_retrieving_draws_nothing_until_an_answer_falls_back():
    stage = Scripted(["oslo", "bergen", "oslo"], {}, AlwaysRetrieveGate())
    found, session = examine(stage)
    assert (found.known, found.draws) == (False, [])
    asyncio.run(session.run(stage.complete(found)))
    assert (found.known, found.answer) == (False, "oslo")


# With a language model.


def test_the_judge_is_asked_only_about_answers_that_differ(scripted):
    drawn = iter(["Oslo", "oslo.", "The Oslo", "Oslo city", "Oslo"])
    lm, engine = scripted(
        lambda name, inputs, config: {"answer": next(drawn)} if name == "AnswerQuiz" else {"same": True}
    )
    stage = Examination(bound=CallLimiter(1))
    stage.set_lm(lm)
    found = stage("Capital of Norway?")
    assert found.known is True
    assert engine.asked("JudgeConsistency") == [
        {"quiz": "Capital of Norway?", "first_answer": "Oslo city", "second_answer": "Oslo"}
    ]


def test_draws_are_warm_and_differ_in_seed_while_judges_are_cold(scripted):
    lm, engine = scripted(
        lambda name, inputs, config: {"answer": f"a{config.seed}"} if name == "AnswerQuiz" else {"same": False}
    )
    stage = Examination(top_p=0.9)
    stage.set_lm(lm)
    stage("Capital of Norway?")
    draws = [config for name, _, config in engine.calls if name == "AnswerQuiz"]
    assert {(config.temperature, config.top_p) for config in draws} == {(1.0, 0.9)}
    assert len({config.seed for config in draws}) == len(draws) == 4
    assert {config.temperature for name, _, config in engine.calls if name == "JudgeConsistency"} == {0.0}


def test_a_failing_judge_separates_and_is_recorded(scripted):
    drawn = iter(["Oslo", "Christiania", "Oslo", "Oslo", "Oslo"])
    lm, _ = scripted(lambda name, inputs, config: {"answer": next(drawn)} if name == "AnswerQuiz" else "garbage")
    stage = Examination(bound=CallLimiter(1))
    stage.set_lm(lm)
    session = Session(stage.bound, blocking=True)
    found = asyncio.run(session.run(stage.run("Capital of Norway?", number=3)))
    assert [len(members) for members in found.clusters] == [4, 1]
    # DSPy's own adapter asks for JSON as well, and both replies count.
    told = [(d.stage, d.quiz, d.cause, d.touches) for d in session.degradations]
    assert told == [("judge_consistency", 3, "AdapterParseError", touches) for touches in (False, False, True)]


def test_with_the_cache_on_tries_are_draws_and_reruns_are_free(scripted, memory_cache):
    lm, engine = scripted(lambda name, inputs, config: {"answer": str(config.seed)}, cache=True)

    def examined(tries: int, seed: int = 0) -> list[str | None]:
        stage = Examination(tries, CertaintyGate(over="types"), seed=seed)
        stage.set_lm(lm)
        stage._place = _alone  # type: ignore[method-assign]
        return [draw.text for draw in stage("Capital of Norway?").draws]

    five = examined(5)
    assert len(set(five)) == 5
    assert engine.count["AnswerQuiz"] == 5
    assert examined(5) == five
    assert engine.count["AnswerQuiz"] == 5
    assert examined(7)[:5] == five
    assert engine.count["AnswerQuiz"] == 7
    assert not set(examined(5, seed=1)) & set(five)


async def _alone(found: Assessment, start: int) -> None:
    found.clusters += [[position] for position in range(start, len(found.draws))]


def test_a_draw_is_told_by_program_seed_quiz_kind_and_number():
    base = draw_identity(0, "q", "short", [], 0)
    others = [
        draw_identity(1, "q", "short", [], 0),
        draw_identity(0, "p", "short", [], 0),
        draw_identity(0, "q", "choice", ["a"], 0),
        draw_identity(0, "q", "short", [], 1),
    ]
    assert len({base, *others}) == 5
    assert base == draw_identity(0, "q", "short", [], 0)


class OneRequest(Session):
    """Gives texts for a request for several samples, or an error; each further sample is "single"."""

    def __init__(self, *given: Any) -> None:
        super().__init__(CallLimiter(1), blocking=False)
        self.given, self.asked = list(given), []

    async def predict(
        self, predictor: Any, *, config: Any = None, attempt: int = 0, usable: Any = None, nth: int = 0, **inputs: Any
    ) -> dspy.Prediction:
        assert attempt == 0, "a draw is drawn no other way"
        self.asked.append((predictor.role, inputs, config))
        said = self.given if "n" in config else ["single"]
        if "n" in config and isinstance(said[0], Exception):
            raise said[0]
        return dspy.Prediction.from_completions({"answer": said})

    def draw(self, stage: Examination, found: Assessment, count: int) -> None:
        with within(caller=self.predict):
            asyncio.run(self.run(stage._draw(found, count)))


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
        (
            [spoilt(2)],
            ["single"] * 3,
            [("AdapterParseError", "no answer", "all 3 samples drawn again, one by one", 7, False)] * 2,
        ),
        (
            [CallError("LMTimeoutError", "late")],
            [None] * 3,
            [
                ("LMTimeoutError", "late", "asked again", 7, True),
                ("LMTimeoutError", "late", "counted as 3 samples without a vote", 7, True),
            ],
        ),
    ],
)
def test_several_draws_in_one_request(monkeypatch, given, answers, notes):
    monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: True)
    monkeypatch.setattr("keqa.programs.stages.examination.runs_in_process", lambda lm: False)
    stage, session = Examination(tries=3, temperature=0.5, top_p=0.9, seed=4), OneRequest(*given)
    stage.same = None
    found = Assessment("Capital?", 7, "short", ["a"], 3)
    monkeypatch.setattr(stage, "_place", placed := Placed())
    session.draw(stage, found, 3)
    assert [draw.text for draw in found.draws] == answers
    assert placed.starts == [0]
    (role, inputs, config), *singly = session.asked
    assert (role, inputs) == ("task", {"quiz": "Capital?", "answer_type": "short", "choices": ["a"]})
    identity = draw_identity(4, "Capital?", "short", ["a"], "0+3")
    assert config == {"temperature": 0.5, "rollout_id": identity, "top_p": 0.9, "n": 3}
    assert [one["rollout_id"] for _, _, one in singly if "n" not in one] == [
        draw_identity(4, "Capital?", "short", ["a"], place) for place, text in enumerate(answers) if text == "single"
    ]
    noted = [(d.cause, d.message, d.action, d.quiz, d.harmless) for d in session.degradations]
    assert (noted, {d.stage for d in session.degradations} <= {"examine"}) == (notes, True)
    # The next wave is another draw, from where this one ended.
    found.tries = 6
    session.draw(stage, found, 2)
    assert session.asked[-1][2]["rollout_id"] != identity
    assert placed.starts == [0, 3]


class Placed:
    """Remembers from where draws are clustered."""

    def __init__(self) -> None:
        self.starts: list[int] = []

    async def __call__(self, found: Assessment, start: int) -> None:
        self.starts.append(start)


@pytest.mark.parametrize(
    ("temperature", "supported", "count", "requests"),
    [(1.0, True, 3, 1), (0.15, True, 3, 3), (1.0, False, 3, 3), (1.0, True, 1, 1)],
)
def test_one_request_is_for_servers_that_take_it_and_draws_far_from_random(
    monkeypatch, temperature, supported, count, requests
):
    monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: supported)
    stage, session = Examination(tries=3, temperature=temperature), OneRequest("a", "a", "a")
    session.draw(stage, Assessment("Capital?", 7, "short", [], 3), count)
    assert len(session.asked) == requests
    assert ["n" in config for _, _, config in session.asked] == [requests < count] * requests


def test_the_probabilities_of_several_draws_are_kept_by_their_places(monkeypatch):
    monkeypatch.setattr("keqa.lms.served.supports_n", lambda lm: True)
    asked = []

    def likelihoods(prediction: Any, count: int, model: str) -> list[tuple[float, float]]:
        asked.append((len(prediction.completions.answer), count, model))
        return [(0.1 * (one + 1), 0.5 + 0.1 * one) for one in range(count)]

    monkeypatch.setattr("keqa.programs.stages.examination.likelihoods_of", likelihoods)
    stage, session = Examination(tries=5, gate=ProbabilityGate()), OneRequest("a", "a", "a")
    stage.quiz.lm = SimpleNamespace(model="own/model")
    monkeypatch.setattr(stage, "_place", Placed())
    found = Assessment("Capital?", 7, "short", [], 5, draws=[Draw("a", cluster=0)], clusters=[[0]])
    session.draw(stage, found, 4)
    assert found.probabilities == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.1})
    assert [draw.first_token for draw in found.draws] == [None, 0.5, 0.6, 0.7, 0.5]
    assert asked == [(3, 3, "own/model"), (1, 1, "own/model")]
    assert session.asked[0][2]["logprobs"] is True


class OwnGate:
    """A gate that a user wrote, whose methods return what they are told."""

    name, needs_all_draws, threshold = "own", False, None

    def __init__(self, decide: Any = None, wave: Any = 0, measure: Any = None) -> None:
        self.decided, self.waved, self.measured = decide, wave, measure

    def decide(self, votes: Any) -> Any:
        return self.decided

    def wave(self, votes: Any) -> Any:
        return self.waved

    def measure(self, votes: Any) -> Any:
        return self.measured


def examined(gate: OwnGate) -> Assessment:
    return asyncio.run(Scripted(["oslo"] * 3, {}, gate).aforward("Capital?"))


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        # Such a gate waited for ever.
        (OwnGate(), "'own' has no verdict and wants no more draws: where decide returns None, wave must be 1 or more"),
        (OwnGate(wave=2), "'own' has no verdict after all 3 draws"),
        (OwnGate(wave=-1), "'own' must return a number of draws from wave, not -1"),
        (OwnGate(wave=None), "'own' must return a number of draws from wave, not None"),
        (OwnGate(decide="no"), "'own' must return True, False or None from decide, not 'no'"),
        (OwnGate(decide=True, measure="high"), "'own' must return a finite number or None from measure, not 'high'"),
        (OwnGate(decide=True, measure=float("nan")), "a finite number or None from measure, not nan"),
    ],
)
def test_what_a_gate_returns_is_checked(gate, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        examined(gate)


def test_a_gate_may_decide_in_numpy_and_ask_for_more_draws_than_are_left():
    found = examined(OwnGate(decide=np.bool_(True), wave=99, measure=np.float64(0.5)))
    assert (found.known, found.certainty, len(found.draws)) == (True, 0.5, 3)
    assert type(found.known) is bool
