"""Every gate as a pure function of draws: what it decides, measures, and how many more it takes."""

import pickle
from fractions import Fraction
from typing import Any

import pytest
from fixtures.boundary import make_model

from keqa.errors import ConfigurationError
from keqa.metrics.answers import f1
from keqa.programs.gate import Draw, Draws, as_fraction, leader, leader_is_fixed
from keqa.programs.gates import (
    AlwaysRetrieveGate,
    BoundaryGate,
    CertaintyGate,
    ConfidenceGate,
    Gate,
    LexicalSimilarityGate,
    NeverRetrieveGate,
    OracleGate,
    ProbabilityGate,
    PromptGate,
    RandomGate,
    Verdict,
    VoteGate,
)

QUIZ = "Capital of Norway?"
CHOICE: Any = {"answer_type": "choice", "choices": ("Oslo", "Bergen")}
HALF = Fraction(1, 2)


def drawn(*answers: str | None, tries: int = 5, likely: tuple[float | None, ...] = (), **more: Any):
    """Draws, None for an abstention, in clusters of equal texts."""
    found = Draws.of(answers, likely, tries=tries, **{"quiz": QUIZ, **more})
    begun = list(dict.fromkeys(filter(None, answers)))
    for draw in found.made:
        draw.cluster = begun.index(draw.text) if draw.text else None
    return found


def sized(*sizes: int, tries: int = 5):
    """Draws in clusters of these sizes."""
    return drawn(*(f"a{place}" for place, size in enumerate(sizes) for _ in range(size)), tries=tries)


OSLO = drawn(*["Oslo"] * 4, "Bergen")
ORACLE = OracleGate({QUIZ: ["Oslo"]})


@pytest.mark.parametrize(
    ("gate", "draws", "said"),
    [
        (VoteGate(as_fraction(0.9)), sized(27, 3, tries=30), True),
        (VoteGate(as_fraction(0.9)), sized(26, 4, tries=30), False),
        (VoteGate(), drawn(), 4),
        (VoteGate(), sized(3), 1),
        (VoteGate(), sized(2, 2), False),
        # A low threshold is reached before it is fixed which answer leads.
        (VoteGate(Fraction(2, 5)), drawn(), 3),
        (VoteGate(Fraction(2, 5)), sized(2), 1),
        (VoteGate(Fraction(2, 5)), sized(2, 2), 1),
        (VoteGate(Fraction(2, 5)), sized(3), True),
        (AlwaysRetrieveGate(), drawn(), False),
        (NeverRetrieveGate(), drawn(), 3),
        (NeverRetrieveGate(), sized(3), True),
        (NeverRetrieveGate(), drawn(*[None] * 5), True),
        (RandomGate("0.5"), drawn(), False),
        (RandomGate("0.4"), drawn(), 3),
        (RandomGate("0.4"), OSLO, True),
        (ORACLE, drawn(), 3),
        (ORACLE, drawn("Oslo", "Oslo", "Bergen", "Bergen"), 1),
        (ORACLE, OSLO, True),
        (ORACLE, drawn(*["Bergen"] * 5), False),
        (ORACLE, drawn(*[None] * 5), False),
        (OracleGate({"capital  of norway?": ["Oslo"]}), OSLO, True),
        (OracleGate(lambda quiz: ["oslo."] if quiz == QUIZ else None), OSLO, True),
        (ORACLE, drawn(*["Oslo city"] * 5), False),
        (OracleGate({QUIZ: ["Oslo"]}, f1, Fraction(2, 3)), drawn(*["Oslo city"] * 5), True),
        (OracleGate({QUIZ: ["Bergen"]}), drawn(*["B"] * 5, **CHOICE), True),
        (CertaintyGate(), sized(4), 1),
        (CertaintyGate(), sized(5), True),
        (CertaintyGate(), drawn(*[None] * 5), False),
        (CertaintyGate(Fraction(-10), "plain"), drawn(*[None] * 5), False),
        (CertaintyGate(), drawn("Oslo", *[None] * 4), False),
        (CertaintyGate(HALF, "by_samples"), OSLO, True),
        (CertaintyGate(HALF, "by_types"), OSLO, False),
        (CertaintyGate(HALF, "plain"), OSLO, False),
        (CertaintyGate(over="types"), drawn("Oslo", "oslo.", tries=2), True),
        # Exactly at the threshold; where all differ, the certainty is 0, and a float below it.
        *[(CertaintyGate(Fraction(1), form), sized(5), True) for form in ("by_types", "plain", "by_samples")],
        *[(CertaintyGate(Fraction(0), form), sized(1, 1, 1, 1, 1), True) for form in ("by_types", "by_samples")],
        (CertaintyGate(Fraction(1, 10**9), "by_types"), sized(1, 1, 1, 1, 1), False),
        (LexicalSimilarityGate(), drawn(), 5),
        # Three fifths as a float is below three fifths as a fraction.
        (LexicalSimilarityGate(Fraction(3, 5)), OSLO, True),
        (LexicalSimilarityGate(), OSLO, False),
        (ConfidenceGate(), drawn(), 3),
        (ConfidenceGate(), sized(2, 2), 1),
        (ConfidenceGate(), drawn(*["Oslo"] * 5, reply=0.8), True),
        (ConfidenceGate(), drawn(*["Oslo"] * 5, reply=0.79), False),
        (ConfidenceGate(Fraction(7, 10)), drawn("Oslo", reply=0.7, tries=1), True),
        (ConfidenceGate(), drawn(*[None] * 5), False),
        (ProbabilityGate(), drawn("Oslo", likely=(0.9,)), 4),
        (ProbabilityGate(), drawn("Oslo", "Bergen", likely=(0.7, 0.3), tries=2), True),
        (ProbabilityGate(), drawn(None, likely=(0.9,), tries=1), False),
        (PromptGate(), drawn(reply=True), False),
        (PromptGate(), drawn(reply=False), 3),
        (PromptGate(), drawn("a", "a", "b", "c", "d", reply=False), True),
        (PromptGate(), drawn(*[None] * 5, reply=False), True),
        # What a boundary model reads is drawn; without an answer nothing is known.
        (BoundaryGate(make_model("draft")), drawn(), 1),
        (BoundaryGate(make_model("draft")), drawn("Bo", likely=(0.9,)), True),
        (BoundaryGate(make_model("draft")), drawn("Bo", likely=(0.3,)), False),
        (BoundaryGate(make_model("draft"), threshold="0.95"), drawn("Bo", likely=(0.9,)), False),
        (BoundaryGate(make_model("draft"), threshold=0), drawn(None), False),
        (BoundaryGate(make_model("draws")), drawn("Bo", likely=(0.9,)), 4),
        (BoundaryGate(make_model("draws")), drawn(*["Bo"] * 5, likely=(1.0,) * 5), True),
        (BoundaryGate(make_model("quiz")), drawn(quiz="Who governs Marton?"), True),
    ],
)
def test_what_a_gate_decides(gate, draws, said):
    found = gate.decide(draws)
    assert (found if isinstance(found, int) else found.known) is said
    assert isinstance(gate, Gate)


@pytest.mark.parametrize(
    ("gate", "draws", "measure"),
    [
        (VoteGate(), sized(4), None),
        (PromptGate(), drawn(reply=True), None),
        # The first 64 bits of BLAKE2b of "0|Capital of Norway?" and so on: a rerun has to give these verdicts again.
        (RandomGate(HALF), drawn(), 0.4829571),
        (RandomGate("0.1", 1), OSLO, 0.1381160),
        (RandomGate(HALF, 2), drawn(), 0.1043773),
        (ORACLE, OSLO, 1.0),
        (CertaintyGate(over="types"), drawn("A", "oslo", tries=2, **CHOICE), 1.0),
        (CertaintyGate(over="types"), drawn("A", "B", tries=2, **CHOICE), 0.0),
        # Of ten pairs six are of the same answer; six of one word, four of "Oslo" and "Oslo city", two thirds alike.
        (LexicalSimilarityGate(), OSLO, 0.6),
        (LexicalSimilarityGate(), drawn(*["Oslo"] * 4, "Oslo city"), (6 + 4 * 2 / 3) / 10),
        (LexicalSimilarityGate(), drawn(*["Oslo"] * 4, None), 0.6),
        (LexicalSimilarityGate(), drawn(*[None] * 5), 0.0),
        (ConfidenceGate(), drawn(*["Oslo"] * 5, reply=0.3), 0.3),
        (ConfidenceGate(), drawn(*[None] * 5), 0.0),
        # What an abstention was drawn with is no probability of an answer.
        (ProbabilityGate(), drawn("Oslo", "Oslo", "Bergen", None, likely=(0.9, 0.9, 0.2, None), tries=4), 0.5),
        (ProbabilityGate(), drawn("Oslo", None, likely=(0.4, 0.9), tries=2), 0.2),
        (ProbabilityGate(), drawn(None, None, tries=2), 0.0),
    ],
)
def test_what_a_gate_measures(gate, draws, measure):
    said = gate.decide(draws)
    assert getattr(said, "measure", "no verdict") == (measure if measure is None else pytest.approx(measure, abs=1e-7))


def test_the_oracle_tells_a_metric_what_kind_of_answer_is_wanted():
    told = []
    gate = OracleGate({QUIZ: ("Bergen", "B")}, lambda *asked: told.append(asked) or 0.25)
    assert gate.decide(drawn(*["B"] * 5, **CHOICE)) == Verdict(False, 0.25)
    assert told == [("B", ["Bergen", "B"], "choice", ("Oslo", "Bergen"))]


@pytest.mark.parametrize(
    ("gate", "draws", "message"),
    [
        *[(OracleGate(golds), OSLO, "no gold answer for the quiz 'Capital of N") for golds in ({}, {QUIZ: []})],
        (OracleGate(lambda quiz: None), OSLO, "no gold answer for the quiz 'Capital of Norway"),
        (ConfidenceGate(), sized(3), "asks for the confidence"),
        (PromptGate(), drawn(), "asks whether to retrieve"),
        *[
            (ProbabilityGate(), drawn("Oslo", "Oslo", likely=likely, tries=2), "made with their probabilities")
            for likely in ((), (0.9,), (0.9, None))
        ],
    ],
)
def test_what_a_gate_cannot_decide_without(gate, draws, message):
    with pytest.raises(ConfigurationError, match=message):
        gate.decide(draws)


@pytest.mark.parametrize(
    ("sizes", "left", "fixed"),
    [((3, 2), 1, True), ((2, 3), 1, False), ((2, 2), 0, True), ((2, 2), 1, False), ((1,), 1, True), ((), 1, False)],
)
def test_when_the_largest_cluster_is_fixed(sizes, left, fixed):
    assert leader_is_fixed(sizes, left) is sized(*sizes, tries=sum(sizes) + left).leader_is_fixed is fixed


def test_what_draws_say():
    draws = Draws(
        tries=6, made=[Draw("a", cluster=0), Draw(error="E"), Draw("no", abstained=True), Draw("b", cluster=1)]
    )
    draws.made.append(Draw("c", cluster=1))
    assert (draws.drawn, draws.left, draws.answers) == (5, 1, ("a", None, None, "b", "c"))
    assert draws.clusters == [[0], [3, 4]]
    assert draws.sizes == [1, 2]
    assert draws.consistency == Fraction(1, 3)
    assert draws.leading == "b"
    assert (draws.first(1).answers, draws.first(1).tries, leader((2, 3, 3)), leader(())) == (("a",), 6, 1, None)


def test_the_random_gate_keeps_its_ratio():
    gate = RandomGate(Fraction(3, 10))
    known = [gate.decide(drawn(*["Oslo"] * 5, quiz=f"quiz {number}")).known for number in range(2000)]
    # The standard deviation of 2000 draws is .01.
    assert known.count(False) / 2000 == pytest.approx(0.3, abs=0.04)


def test_a_quiz_whose_number_is_the_share_itself_is_not_retrieved_for():
    number = RandomGate(HALF).chance(QUIZ)
    assert RandomGate(Fraction(number)).decide(OSLO).known is True
    assert RandomGate(Fraction(number) + Fraction(1, 2**53)).decide(OSLO).known is False
    assert RandomGate("0.4").name == "random, retrieving 0.4"


def test_an_oracle_travels_and_keeps_its_golds_to_itself():
    gate = pickle.loads(pickle.dumps(ORACLE))
    assert gate.decide(OSLO).known is True
    assert "Oslo" not in repr(gate)
