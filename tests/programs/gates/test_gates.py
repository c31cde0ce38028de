"""Gates as pure functions of votes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError
from keqa.programs.gates import (
    AlwaysRetrieveGate,
    CertaintyGate,
    Gate,
    NeverRetrieveGate,
    VoteGate,
    Votes,
    as_fraction,
    leader,
    leader_is_fixed,
)
from keqa.programs.gates.base import AllSamplesGate


@pytest.mark.parametrize("value", [0.8, "0.8", "4/5", Fraction(4, 5)])
def test_thresholds_are_what_their_writing_says(value):
    assert as_fraction(value) == Fraction(4, 5)


@pytest.mark.parametrize("value", [0, -1, 1.01, "most", "1/0", None])
def test_thresholds_that_are_none(value):
    with pytest.raises(ConfigurationError):
        as_fraction(value)


def test_votes_are_compared_as_fractions():
    assert VoteGate(as_fraction(0.9)).decide(Votes((27, 3), 30, 30)) is True
    assert VoteGate(as_fraction(0.9)).decide(Votes((26, 4), 30, 30)) is False


@pytest.mark.parametrize(
    ("sizes", "left", "fixed"),
    [((3, 2), 1, True), ((2, 3), 1, False), ((2, 2), 0, True), ((2, 2), 1, False), ((1,), 1, True), ((), 1, False)],
)
def test_when_the_largest_cluster_is_fixed(sizes, left, fixed):
    drawn = sum(sizes)
    assert leader_is_fixed(Votes(sizes, drawn, drawn + left)) is fixed


def test_the_first_of_equals_leads():
    assert (leader((2, 3, 3)), leader(())) == (1, None)


def test_a_low_threshold_waits_for_the_winner():
    gate = VoteGate(Fraction(2, 5))
    assert gate.decide(Votes((2,), 2, 5)) is None
    assert gate.wave(Votes((), 0, 5)) == 3
    assert gate.decide(Votes((2, 2), 4, 5)) is None
    assert gate.decide(Votes((3,), 3, 5)) is True


def test_a_certainty_gate_refuses_a_set_stopped_early():
    with pytest.raises(ConfigurationError, match="needs all 5 draws; this set was stopped after 4"):
        CertaintyGate().decide(Votes((4,), 4, 5))


@pytest.mark.parametrize(
    ("gate", "votes", "known"),
    [
        (CertaintyGate(), Votes((5,), 5, 5), True),
        (CertaintyGate(), Votes((), 5, 5), False),
        (CertaintyGate(), Votes((1,), 5, 5), False),
        (CertaintyGate(Fraction(1, 2), "by_samples"), Votes((4, 1), 5, 5), True),
        (CertaintyGate(Fraction(1, 2), "by_types"), Votes((4, 1), 5, 5), False),
        (CertaintyGate(Fraction(1, 2), "plain"), Votes((4, 1), 5, 5), False),
        (CertaintyGate(over="types"), Votes((2,), 2, 2, ("Oslo", "Christiania")), False),
        (CertaintyGate(over="types"), Votes((2,), 2, 2, ("Oslo", "oslo.")), True),
    ],
)
def test_certainty_gates(gate, votes, known):
    assert gate.decide(votes) is known


def test_an_unknown_certainty():
    with pytest.raises(ConfigurationError):
        CertaintyGate(over="words")


def test_all_are_gates():
    for gate in (VoteGate(), CertaintyGate(), AlwaysRetrieveGate(), NeverRetrieveGate()):
        assert isinstance(gate, Gate)
    assert [gate.needs_all_draws for gate in (VoteGate(), CertaintyGate())] == [False, True]


def test_a_gate_that_reads_all_samples_has_to_say_what_it_measures():
    class Nothing(AllSamplesGate):
        kind = "nothing"

    with pytest.raises(TypeError, match="abstract"):
        Nothing()
