"""The bounds and the chance level of a comparison of gates."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.programs.gates import AlwaysRetrieveGate, NeverRetrieveGate, OracleGate, RandomGate, Votes

QUIZ = "Capital of Norway?"
ALL_OSLO = Votes((4, 1), 5, 5, quiz=QUIZ, leading="Oslo")


def test_the_two_bounds():
    nothing = Votes((), 0, 5)
    assert (AlwaysRetrieveGate().wave(nothing), AlwaysRetrieveGate().decide(nothing)) == (0, False)
    assert (NeverRetrieveGate().wave(nothing), NeverRetrieveGate().decide(nothing)) == (3, None)
    assert NeverRetrieveGate().decide(Votes((3,), 3, 5)) is True


def test_chance_is_the_quizs_own_and_the_seeds():
    # The first 64 bits of BLAKE2b of "0|Capital of Norway?" and so on: a rerun has to give these verdicts again.
    numbers = [RandomGate(Fraction(1, 2), seed).measure(ALL_OSLO) for seed in range(3)]
    assert numbers == pytest.approx([0.4829571, 0.1381160, 0.1043773], abs=1e-7)


def test_the_random_gate_draws_only_where_it_does_not_retrieve():
    start = Votes((), 0, 5, quiz=QUIZ)
    retrieves, does_not = RandomGate("0.5"), RandomGate("0.4")
    assert (retrieves.wave(start), retrieves.decide(start)) == (0, False)
    assert (does_not.wave(start), does_not.decide(start)) == (3, None)
    assert (does_not.decide(ALL_OSLO), does_not.name) == (True, "random, retrieving 0.4")


def test_the_random_gate_keeps_its_ratio():
    gate = RandomGate(Fraction(3, 10))
    known = [gate.decide(Votes((5,), 5, 5, quiz=f"quiz {number}")) for number in range(2000)]
    # The standard deviation of 2000 draws is .01.
    assert known.count(False) / 2000 == pytest.approx(0.3, abs=0.04)


@given(st.text(min_size=1), st.integers(), st.fractions(0, 1), st.fractions(0, 1))
def test_who_retrieves_more_retrieves_for_the_same_and_others(quiz, seed, one, other):
    votes = Votes((5,), 5, 5, quiz=quiz)
    low, high = sorted([one, other])
    assert RandomGate(low, seed).decide(votes) is not False or RandomGate(high, seed).decide(votes) is False
    assert RandomGate(Fraction(0), seed).decide(votes) is True
    assert RandomGate(Fraction(1), seed).decide(votes) is False


@pytest.mark.parametrize("share", [-0.1, 1.1, "half", None])
def test_shares_that_are_none(share):
    with pytest.raises(ConfigurationError, match="from 0 to 1"):
        RandomGate(share)


def test_chance_needs_a_quiz():
    with pytest.raises(ConfigurationError, match="text of the quiz"):
        RandomGate(Fraction(1, 2)).decide(Votes((5,), 5, 5))


@pytest.mark.parametrize("golds", [{"capital  of norway?": ["Oslo", "Christiania"]}, lambda quiz: ["oslo."]])
def test_the_oracle_knows_what_is_right(golds):
    gate = OracleGate(golds)
    assert (gate.decide(ALL_OSLO), gate.measure(ALL_OSLO)) == (True, 1.0)
    assert gate.decide(Votes((5,), 5, 5, quiz=QUIZ, leading="Bergen")) is False
    assert gate.decide(Votes((), 5, 5, quiz=QUIZ)) is False


def test_the_oracle_waits_until_it_is_fixed_which_answer_leads():
    gate = OracleGate({QUIZ: ["Oslo"]})
    assert gate.decide(Votes((2, 2), 4, 5, quiz=QUIZ, leading="Oslo")) is None
    assert gate.wave(Votes((), 0, 5, quiz=QUIZ)) == 3


def test_the_oracle_may_be_lenient():
    votes = Votes((5,), 5, 5, quiz=QUIZ, leading="Oslo city")
    assert OracleGate({QUIZ: ["Oslo"]}).decide(votes) is False
    assert OracleGate({QUIZ: ["Oslo"]}, f1, Fraction(2, 3)).decide(votes) is True


def test_the_oracle_reads_options():
    votes = Votes((5,), 5, 5, quiz=QUIZ, leading="B", answer_type="choice", choices=("Oslo", "Bergen"))
    assert OracleGate({QUIZ: ["Bergen"]}).decide(votes) is True


@pytest.mark.parametrize("golds", [{}, {QUIZ: []}, lambda quiz: None])
def test_the_oracle_refuses_without_gold_answers(golds):
    with pytest.raises(ConfigurationError, match="no gold answer for the quiz 'Capital of Norway"):
        OracleGate(golds).decide(ALL_OSLO)


def test_an_oracle_travels_and_keeps_its_golds_to_itself():
    gate = pickle.loads(pickle.dumps(OracleGate({QUIZ: ["Oslo"]})))
    assert gate.decide(ALL_OSLO) is True
    assert "Oslo" not in repr(gate)
