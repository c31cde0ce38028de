"""The bounds of a comparison of gates."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.programs.gates import AlwaysRetrieveGate, NeverRetrieveGate, OracleGate, Votes

QUIZ = "Capital of Norway?"
ALL_OSLO = Votes((4, 1), 5, 5, quiz=QUIZ, leading="Oslo")


def test_the_two_bounds():
    nothing = Votes((), 0, 5)
    assert (AlwaysRetrieveGate().wave(nothing), AlwaysRetrieveGate().decide(nothing)) == (0, False)
    assert (NeverRetrieveGate().wave(nothing), NeverRetrieveGate().decide(nothing)) == (3, None)
    assert NeverRetrieveGate().decide(Votes((3,), 3, 5)) is True


@pytest.mark.parametrize("golds", [{"capital  of norway?": ["Oslo", "Christiania"]}, lambda quiz: ["oslo."]])
def test_the_oracle_knows_what_is_right(golds):
    gate = OracleGate(golds)
    assert (gate.decide(ALL_OSLO), gate.measure(ALL_OSLO)) == (True, 1.0)
    assert gate.decide(Votes((5,), 5, 5, quiz=QUIZ, leading="Bergen")) is False
    assert gate.decide(Votes((), 5, 5, quiz=QUIZ)) is False


def test_the_oracle_asks_for_the_gold_answers_of_the_quiz_as_it_is_written():
    asked = []

    def golds(quiz):
        asked.append(quiz)
        return ["Oslo"]

    assert OracleGate(golds).measure(ALL_OSLO) == 1.0
    assert asked == [QUIZ]


def test_the_oracle_tells_a_metric_what_kind_of_answer_is_wanted():
    told = []

    def correctness(*asked):
        told.append(asked)
        return 0.25

    votes = Votes((5,), 5, 5, quiz=QUIZ, leading="B", answer_type="choice", choices=("Oslo", "Bergen"))
    assert OracleGate({QUIZ: ("Bergen", "B")}, correctness).measure(votes) == 0.25
    assert told == [("B", ["Bergen", "B"], "choice", ("Oslo", "Bergen"))]


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
