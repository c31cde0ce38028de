"""The gate that retrieves by chance."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.programs.gates import RandomGate, Votes

QUIZ = "Capital of Norway?"
ALL_OSLO = Votes((4, 1), 5, 5, quiz=QUIZ, leading="Oslo")
SEEDS = st.integers(-(2**63), 2**63 - 1)
SHARES = st.integers(0, 100).map(lambda percent: Fraction(percent, 100))


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


@given(st.text(min_size=1), SEEDS, SHARES, SHARES)
def test_who_retrieves_more_retrieves_for_the_same_and_others(quiz, seed, one, other):
    votes = Votes((5,), 5, 5, quiz=quiz)
    low, high = sorted([one, other])
    assert RandomGate(low, seed).decide(votes) is not False or RandomGate(high, seed).decide(votes) is False
    assert RandomGate(Fraction(0), seed).decide(votes) is True
    assert RandomGate(Fraction(1), seed).decide(votes) is False


def test_a_quiz_whose_number_is_the_share_itself_is_not_retrieved_for():
    number = RandomGate(Fraction(1, 2)).measure(ALL_OSLO)
    assert RandomGate(Fraction(number)).decide(ALL_OSLO) is True
    assert RandomGate(Fraction(number) + Fraction(1, 2**53)).decide(ALL_OSLO) is False


@pytest.mark.parametrize("share", [-0.1, 1.1, "half", None])
def test_shares_that_are_none(share):
    with pytest.raises(ConfigurationError, match="from 0 to 1"):
        RandomGate(share)


def test_chance_needs_a_quiz():
    with pytest.raises(ConfigurationError, match="text of the quiz"):
        RandomGate(Fraction(1, 2)).decide(Votes((5,), 5, 5))
