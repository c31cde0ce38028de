"""Gates that retrieve by chance, of a given share or as often as another run did."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.errors import ConfigurationError
from keqa.programs.gates import MatchedRandomGate, RandomGate, Votes

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


def known(gate, places):
    return [gate.decide(Votes((5,), 5, 5, quiz="any", place=place)) for place in places]


@given(st.dictionaries(st.text(min_size=1), st.booleans(), min_size=1), SEEDS)
def test_exactly_as_many_are_retrieved_for(verdicts, seed):
    gate = MatchedRandomGate.of(verdicts.items(), seed)
    unknown = list(verdicts.values()).count(False)
    assert known(gate, verdicts).count(False) == unknown
    assert gate.threshold == Fraction(unknown, len(verdicts))


@given(st.dictionaries(st.text(min_size=1), st.booleans(), min_size=1), st.randoms(use_true_random=False))
def test_the_order_of_the_run_does_not_matter(verdicts, random):
    shuffled = list(verdicts.items())
    random.shuffle(shuffled)
    assert MatchedRandomGate.of(shuffled) == MatchedRandomGate.of(verdicts.items())


def test_which_quizzes_does_not_depend_on_the_verdicts_but_on_the_seed():
    places = [f"place {number}" for number in range(100)]
    half = [(place, number % 2 == 0) for number, place in enumerate(places)]
    other = [(place, number < 50) for number, place in enumerate(places)]
    assert known(MatchedRandomGate.of(half), places) == known(MatchedRandomGate.of(other), places)
    assert known(MatchedRandomGate.of(half), places) != known(MatchedRandomGate.of(half, seed=1), places)
    # Of what the other run knew, about half is retrieved for.
    again = known(MatchedRandomGate.of(half), places[::2])
    assert 15 < again.count(False) < 35


def test_quizzes_of_one_place_are_retrieved_for_together():
    # Two of the four are wanted; which two, the numbers say: one place's pair, or the nearest that they leave.
    twice = [("a", True), ("a", True), ("b", False), ("b", False)]
    assert known(MatchedRandomGate.of(twice), ["a", "a", "b", "b"]).count(False) == 2
    one = MatchedRandomGate.of([("a", True), ("a", True), ("a", False)])
    assert (one.threshold, known(one, ["a"])) == (Fraction(1, 3), [True])


def test_it_draws_only_where_it_does_not_retrieve():
    start = Votes((), 0, 5, quiz=QUIZ, place="here")
    none, every = (MatchedRandomGate.of([("here", verdict)]) for verdict in (True, False))
    assert (none.wave(start), none.decide(start)) == (3, None)
    assert (every.wave(start), every.decide(start)) == (0, False)
    assert (none.threshold, every.threshold, every.name) == (0, 1, "random, matching 1")


def test_a_place_whose_number_is_the_cut_is_not_retrieved_for():
    here = Votes((5,), 5, 5, quiz=QUIZ, place="here")
    number = MatchedRandomGate(Fraction(1, 2), 0.0).measure(here)
    assert MatchedRandomGate(Fraction(1, 2), number).decide(here) is True
    assert MatchedRandomGate(Fraction(1, 2), number + 2**-53).decide(here) is False


def test_what_a_matched_gate_needs():
    with pytest.raises(ConfigurationError, match="verdicts"):
        MatchedRandomGate.of([])
    with pytest.raises(ConfigurationError, match="quizzes of questions only"):
        MatchedRandomGate.of([("here", True)]).decide(ALL_OSLO)
    with pytest.raises(ConfigurationError, match="cut must be a number from 0 to 1"):
        MatchedRandomGate(Fraction(1, 2), 1.5)
