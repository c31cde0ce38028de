"""Gates by certainty, words, stated confidence and token probabilities, as pure functions of votes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError
from keqa.programs.gates import (
    CertaintyGate,
    ConfidenceGate,
    LexicalSimilarityGate,
    ProbabilityGate,
    PromptGate,
    VoteGate,
    Votes,
    asks,
)
from keqa.programs.stages.gate_question import RetrievalDecision, StatedConfidence


def drawn(*answers, **more):
    """Votes of draws in clusters of equal texts."""
    said = [answer for answer in answers if answer is not None]
    sizes = tuple(said.count(text) for text in dict.fromkeys(said))
    return Votes(sizes, len(answers), len(answers), answers, leading=said[0] if said else None, **more)


def test_types_of_options_are_told_by_letter_and_text():
    options = {"answer_type": "choice", "choices": ("Oslo", "Bergen")}
    gate = CertaintyGate(over="types")
    assert gate.measure(Votes((1, 1), 2, 2, ("A", "oslo"), **options)) == 1.0
    assert gate.measure(Votes((1, 1), 2, 2, ("A", "B"), **options)) == 0.0


@pytest.mark.parametrize(
    ("answers", "measure", "known"),
    [
        (["Oslo"] * 5, 1.0, True),
        # Ten pairs, of which six are of the same answer.
        (["Oslo"] * 4 + ["Bergen"], 0.6, False),
        # Six of one word, four of "Oslo" and "Oslo city", two thirds alike.
        (["Oslo"] * 4 + ["Oslo city"], (6 + 4 * 2 / 3) / 10, True),
        (["Oslo"] * 4 + [None], 0.6, False),
        ([None] * 5, 0.0, False),
    ],
)
def test_lexical_similarity(answers, measure, known):
    gate = LexicalSimilarityGate()
    assert gate.measure(drawn(*answers)) == pytest.approx(measure)
    assert gate.decide(drawn(*answers)) is known
    assert (gate.wave(Votes((), 0, 5)), gate.name) == (5, "lexical similarity rouge_l")


def test_a_threshold_is_reached_as_it_is_written():
    # Three fifths as a float is below three fifths as a fraction.
    assert LexicalSimilarityGate(Fraction(3, 5)).decide(drawn(*["Oslo"] * 4, "Bergen")) is True
    assert ConfidenceGate(Fraction(7, 10)).decide(drawn("Oslo", reply=0.7)) is True
    assert ProbabilityGate().decide(drawn("Oslo", "Bergen", probabilities=(0.7, 0.3))) is True


@pytest.mark.parametrize(
    ("sizes", "form", "threshold"),
    [((5,), form, 1) for form in ("by_types", "plain", "by_samples")]
    # Where all differ, the certainty is 0, and a float below it.
    + [((1,) * 5, form, 0) for form in ("by_types", "by_samples")],
)
def test_a_certainty_exactly_at_its_threshold_reaches_it(sizes, form, threshold):
    assert CertaintyGate(Fraction(threshold), form).decide(Votes(sizes, 5, 5)) is True
    if threshold == 0:
        assert CertaintyGate(Fraction(1, 10**9), form).decide(Votes(sizes, 5, 5)) is False


def test_an_unknown_similarity():
    with pytest.raises(ConfigurationError, match="bleu"):
        LexicalSimilarityGate(form="bleu")


def test_stated_confidence():
    gate = ConfidenceGate()
    assert gate.decide(drawn(*["Oslo"] * 5, reply=0.8)) is True
    assert gate.decide(drawn(*["Oslo"] * 5, reply=0.79)) is False
    assert (gate.decide(drawn(None, None)), gate.measure(drawn(None, None))) == (False, 0.0)


def test_confidence_is_asked_of_an_answer_that_stays():
    gate = ConfidenceGate()
    assert gate.wave(Votes((), 0, 5)) == 3
    assert gate.decide(Votes((2, 2), 4, 5)) is None
    with pytest.raises(ConfigurationError, match="asks for the confidence"):
        gate.decide(Votes((3,), 3, 5))


def test_token_probability_is_the_mean_over_draws():
    gate = ProbabilityGate()
    votes = drawn("Oslo", "Oslo", "Bergen", None, probabilities=(0.9, 0.9, 0.2, None))
    assert gate.measure(votes) == pytest.approx(0.5)
    assert gate.decide(votes) is True
    # What an abstention was drawn with is no probability of an answer.
    assert gate.measure(drawn("Oslo", None, probabilities=(0.4, 0.9))) == pytest.approx(0.2)
    assert gate.decide(drawn(None, probabilities=(0.9,))) is False
    # Draws that all failed have no tokens.
    assert gate.decide(drawn(None, None, probabilities=())) is False


@pytest.mark.parametrize("probabilities", [(), (0.9,), (0.9, None)])
def test_token_probability_needs_them_all(probabilities):
    with pytest.raises(ConfigurationError, match="made with their probabilities"):
        ProbabilityGate().decide(drawn("Oslo", "Oslo", probabilities=probabilities))


@pytest.mark.parametrize("gate", [LexicalSimilarityGate(), ProbabilityGate(), CertaintyGate()])
def test_gates_that_need_all_draws_refuse_a_set_stopped_early(gate):
    assert gate.needs_all_draws
    with pytest.raises(ConfigurationError, match="needs all 5 draws; this set was stopped after 4"):
        gate.decide(Votes((4,), 4, 5, ("Oslo",) * 4, probabilities=(0.9,) * 4))


def test_what_gates_ask_for_and_score():
    gates = [VoteGate(), LexicalSimilarityGate(), ConfidenceGate(), ProbabilityGate()]
    assert [asks(gate) for gate in [*gates, PromptGate()]] == [
        None,
        None,
        StatedConfidence,
        "probabilities",
        RetrievalDecision,
    ]
    votes = drawn("Oslo", "Oslo", "Bergen", None, reply=0.3, probabilities=(1.0, 1.0, 0.4, 0.1))
    assert VoteGate().measure(votes) is None
    assert [gate.measure(votes) for gate in gates[1:]] == pytest.approx([1 / 6, 0.3, 0.6])


def test_the_prompt_gate_draws_only_where_no_passage_is_wanted():
    gate, nothing = PromptGate(), Votes((), 0, 5)
    wanted, not_wanted = (replace(nothing, reply=one) for one in (True, False))
    assert (gate.wave(wanted), gate.decide(wanted)) == (0, False)
    assert (gate.wave(not_wanted), gate.decide(not_wanted)) == (3, None)
    assert gate.decide(Votes((2, 2), 4, 5, reply=False)) is None
    assert gate.decide(Votes((2, 1, 1, 1), 5, 5, reply=False)) is True
    # It answers from memory whatever is there, and ranks nothing.
    assert gate.decide(Votes((), 5, 5, reply=False)) is True
    assert gate.measure(wanted) is None


@pytest.mark.parametrize("ask", [PromptGate().decide, PromptGate().wave])
def test_the_prompt_gate_has_to_be_told_what_the_lm_said(ask):
    with pytest.raises(ConfigurationError, match="asks whether to retrieve"):
        ask(Votes((5,), 5, 5))
