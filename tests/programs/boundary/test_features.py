"""What a light boundary model sees."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keqa.programs.boundary.light import certainty, consistency, masked, signal_values
from keqa.programs.draws import Draws


@pytest.mark.parametrize(
    ("quiz", "shape"),
    [
        ("Who governs Marton?", "who governs <name>?"),
        ("To whom is Ann Lee O'Neil married?", "to whom is <name> married?"),
        ("When did St. Marton win in 1994 and 2001?", "when did <name>. <name> win in <number> and <number>?"),
    ],
)
def test_names_and_numbers_are_masked(quiz, shape):
    assert masked(quiz) == shape


def test_a_draft_is_the_first_draw_alone():
    signals = Draws.of(("Oslo", "Bergen"), (0.5, 0.1), (0.25, 0.1))
    assert signal_values("draft", signals, True) == pytest.approx(
        {
            "abstained": 0.0,
            "length": 0.6931471805599453,
            "probability": 0.5,
            "log probability": -0.6911491778972723,
            "first token": 0.25,
            "log first token": -1.3823023398503532,
        }
    )
    assert set(signal_values("draft", signals, False)) == {"abstained", "length"}
    assert signal_values("quiz", signals, False) == {}


def test_draws_are_compared_by_their_exact_answers():
    signals = Draws.of(("Oslo", "oslo.", "Bergen", None), (0.8, 0.4, 0.2, None), (0.9, None, 0.2, None))
    assert (consistency(signals), certainty(signals)) == (0.5, pytest.approx(0.25))
    values = signal_values("draws", signals, True)
    assert (values["consistency"], values["abstained"], values["probability"]) == (0.5, 0.25, pytest.approx(0.35))
    # Where only the first token's probability is missing, that of the answer stands in.
    assert values["first token"] == pytest.approx((0.9 + 0.4 + 0.2) / 4)


def test_all_signals_of_draws():
    signals = Draws.of(("Oslo", "oslo.", "Bergen", None), (0.8, 0.4, 0.2, None), (0.9, None, 0.2, None))
    entropy = math.log(2) * 1.5
    plain = {
        "consistency": 0.5,
        # The abstention agrees with nothing: three types of answers, of four draws.
        "certainty by types": 1 - entropy / math.log(3),
        "certainty by samples": 1 - entropy / math.log(4),
        # One of six pairs says the same.
        "lexical similarity": 1 / 6,
        "abstained": 0.25,
    }
    likely = {"probability": 0.35, "log probability": math.log(0.351), "first token": 0.375}
    assert signal_values("draws", signals, True) == pytest.approx(plain | likely)
    assert signal_values("draws", signals, False) == pytest.approx(plain)


@pytest.mark.parametrize("answers", [(), (None,)])
def test_what_is_no_answer_is_no_likely_one(answers):
    least = {"probability": 0.0, "log probability": math.log(0.001), "first token": 0.0}
    signals = Draws.of(answers, (1.0,) * len(answers), (1.0,) * len(answers))
    found = signal_values("draft", signals, True)
    assert found == pytest.approx(least | {"abstained": 1.0, "length": 0.0, "log first token": math.log(0.001)})
    of_draws = signal_values("draws", signals, True)
    assert {name: of_draws[name] for name in least} == pytest.approx(least)
    assert (of_draws["consistency"], of_draws["abstained"]) == (0.0, float(len(answers)))
    assert certainty(signals) == len(answers)


@pytest.mark.parametrize(
    ("answers", "probabilities", "has"),
    [
        (("Oslo",), (0.5,), True),
        (("Oslo",), (), False),
        (("Oslo",), (None,), False),
        (("Oslo", None), (0.5, None), True),
        ((None,), (), True),
        (("Oslo", None), (), False),
        ((), (), False),
    ],
)
def test_whether_there_are_probabilities(answers, probabilities, has):
    assert Draws.of(answers, probabilities).has_probabilities is has


@given(
    st.sampled_from(["quiz", "draft", "draws"]),
    st.lists(st.tuples(st.none() | st.text(max_size=8), st.none() | st.floats(0, 1)), max_size=6),
    st.booleans(),
)
def test_the_names_of_signals_do_not_depend_on_the_draws(reads, draws, probabilities):
    signals = Draws.of(tuple(text for text, _ in draws), tuple(one for _, one in draws))
    values = signal_values(reads, signals, probabilities)
    assert list(values) == list(signal_values(reads, Draws.of((None,), (None,)), probabilities))
    assert all(-10 < value < 10 for value in values.values())
