"""Which values are tried on a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from keqa.errors import ConfigurationError
from keqa.optimize.tuning import GRID, has_tunable_threshold, own_choice, values_to_try
from keqa.programs import AlwaysRetrieveGate, CertaintyGate
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA

SOME = {"threshold": ("0.5", "4/5", "1"), "tries": (2, 3), "top_k": (1, 2), "temperature": (0.5, 1.0)}


@pytest.fixture
def program(retriever):
    """Makes a program that has a retriever unless told otherwise."""

    def make(searching=True, **settings):
        chosen = {"tries": 3, "top_k": 2} | ({} if "gate" in settings else {"threshold": "2/3"}) | settings
        return KEQA(retriever("text") if searching else None, **chosen)

    return make


def test_what_is_tried_where_nothing_is_said():
    assert {
        "tries": (3, 5),
        "threshold": ("0.4", "0.6", "0.8", "1"),
        "temperature": (0.7, 1.0),
        "top_k": (2, 3, 5, 10),
        **dict.fromkeys(("listwise", "summarize_single", "summarize_known", "prefer_reliable"), (False, True)),
        "top_p": (None, 0.9),
        "on_nothing_helpful": ("largest_cluster", "closed_book"),
        "boundary_threshold": ("0.5", "0.6", "0.7", "0.8", "0.85", "0.9"),
    } == GRID


def test_the_programs_own_values_come_first_and_none_twice(program):
    found = values_to_try(program(), SOME)
    assert [found[name] for name in ("threshold", "tries", "top_k", "temperature", "top_p")] == [
        ("2/3", "1/2", "4/5", "1/1"),
        (3, 2),
        (2, 1),
        (1.0, 0.5),
        (None, 0.9),
    ]
    assert (found["listwise"], found["prefer_reliable"]) == ((False, True), (False,))
    assert own_choice(program())["threshold"] == "2/3"


def test_settings_that_make_no_difference_keep_their_value(program, plain_gate):
    unexamined = values_to_try(program(examine=False, decompose=False), SOME)
    assert (unexamined["tries"], unexamined["threshold"], unexamined["top_k"]) == ((3,), ("2/3",), (2, 1))
    assert unexamined["summarize_single"] == (False,)
    searchless = values_to_try(program(searching=False), SOME)
    assert (searchless["top_k"], searchless["listwise"], searchless["tries"]) == ((2,), (False,), (3, 2))
    assert values_to_try(program(gate=AlwaysRetrieveGate()), SOME)["threshold"] == (None,)
    # A gate that cannot be made again keeps its threshold.
    assert values_to_try(program(gate=plain_gate("1/2")), SOME)["threshold"] == (None,)


@dataclass(frozen=True)
class Fixed(VoteGate):
    """A gate whose threshold is not given to it."""

    threshold: Fraction = field(default=Fraction(1, 2), init=False)


def test_whose_threshold_may_be_tuned(plain_gate):
    assert has_tunable_threshold(VoteGate())
    assert has_tunable_threshold(CertaintyGate())
    for gate in (AlwaysRetrieveGate(), plain_gate("1/2"), Fixed()):
        assert not has_tunable_threshold(gate)


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({"tries": (0,)}, "grid: tries must be a whole number from 1"),
        ({"top_k": (0,)}, "grid: top_k must be a whole number from 1"),
        ({"temperature": (0.0,)}, "grid: temperature must be a number above 0"),
        ({"top_p": (1.5,)}, "grid: top_p must be a number above 0 and at most 1"),
        ({"threshold": ("1", "3/2")}, "grid: threshold must be a number above 0 and at most 1"),
        ({"boundary_threshold": ("2",)}, "boundary_threshold must be a number from 0 to 1"),
        ({"pick": (True,)}, "grid must be values by setting"),
        ((3,), "grid must be values by setting"),
    ],
)
def test_values_that_cannot_work_are_refused(program, grid, told):
    with pytest.raises(ConfigurationError, match=told):
        values_to_try(program(), grid)


@dataclass(frozen=True)
class Low(VoteGate):
    """A gate that takes low thresholds only."""

    def __post_init__(self) -> None:
        if self.threshold > Fraction(1, 2):
            raise ValueError("too high")


def test_a_threshold_that_a_gate_does_not_take_is_refused(program):
    gate = Low(Fraction(1, 2))
    assert values_to_try(program(gate=gate), {"threshold": ("0.4",)})["threshold"] == ("1/2", "2/5")
    with pytest.raises(ConfigurationError, match=r"'votes' cannot be given the threshold 1/1 \(too high\): give grid="):
        values_to_try(program(gate=gate), {"threshold": ("0.4", "1")})
