"""Which values are tried on a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from keqa.errors import ConfigurationError
from keqa.optimize.search_space import Grid, Knobs, Settings, has_tunable_threshold
from keqa.programs import AlwaysRetrieveGate, CertaintyGate
from keqa.programs.gates import VoteGate
from keqa.programs.keqa import KEQA

# No switch, and what answers where nothing helps as it is.
LAST: tuple[tuple[Any, ...], ...] = ((), ("largest_cluster",), ())
GRID = Grid(("0.5", "4/5", "1"), (2, 3), (1, 2), (0.5, 1.0), (None, 0.9), (), (), ())


@pytest.fixture
def program(retriever):
    """Makes a program that has a retriever unless told otherwise."""

    def make(searching=True, **settings):
        chosen = {"tries": 3, "top_k": 2} | ({} if "gate" in settings else {"threshold": "2/3"}) | settings
        return KEQA(retriever("text") if searching else None, **chosen)

    return make


def test_the_grid_as_it_is():
    assert Grid() == Grid(("0.4", "0.6", "0.8", "1"), (3, 5), (2, 3, 5, 10), (0.7, 1.0), (None, 0.9))


def test_the_programs_own_values_come_first_and_none_twice(program):
    own = Settings("2/3", 3, 2, 1.0, None)
    found = Knobs.of(program(), GRID)
    tried = (("2/3", "1/2", "4/5", "1/1"), (3, 2), (2, 1), (1.0, 0.5), (None, 0.9))
    assert found == Knobs(*tried, *LAST, own=own)


def test_knobs_that_are_not_used_keep_their_value(program):
    alone = Knobs(("2/3",), (3,), (2, 1), (1.0,), (None,), *LAST, own=Settings("2/3", 3, 2, 1.0, None))
    assert Knobs.of(program(examine=False), GRID) == alone
    searchless = Knobs.of(program(searching=False), GRID)
    assert (searchless.top_ks, searchless.tries) == ((2,), (3, 2))
    always = Knobs.of(program(gate=AlwaysRetrieveGate()), GRID)
    assert always == Knobs((None,), (3,), (2, 1), (1.0,), (None,), *LAST, own=Settings(None, 3, 2, 1.0, None))


def test_a_gate_that_cannot_be_made_again_keeps_its_threshold(program, plain_gate):
    found = Knobs.of(program(gate=plain_gate("1/2")), GRID)
    assert (found.own.threshold, found.thresholds, found.tries) == (None, (None,), (3, 2))


@dataclass(frozen=True)
class Fixed(VoteGate):
    """A gate whose threshold is not given to it."""

    threshold: Fraction = field(default=Fraction(1, 2), init=False)


def test_whose_threshold_may_be_tuned(plain_gate):
    assert has_tunable_threshold(VoteGate())
    assert has_tunable_threshold(CertaintyGate())
    for gate in (AlwaysRetrieveGate(), plain_gate("1/2"), Fixed()):
        assert not has_tunable_threshold(gate)


@pytest.mark.parametrize("grid", [Grid(tries=(1,), top_ks=(1,), temperatures=(0.01,), top_ps=(0.01, 1.0))])
def test_limits_may_be_reached(program, grid):
    assert Knobs.of(program(), grid).top_ps == (None, 0.01, 1.0)


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        (Grid(tries=(0,)), "^tries and top_ks must be at least 1"),
        (Grid(top_ks=(0,)), "^tries and top_ks must be at least 1"),
        (Grid(temperatures=(0.0,)), "the temperatures of tries above 0$"),
        (Grid(temperatures=(-1.0,)), "the temperatures of tries above 0$"),
        (Grid(top_ps=(0.0,)), "^the top_ps of tries must be above 0"),
        (Grid(top_ps=(1.5,)), "^the top_ps of tries must be above 0"),
        (Grid(thresholds=("1", "3/2")), "^a threshold must be a number above 0 and at most 1"),
    ],
)
def test_values_that_cannot_work_are_refused(program, grid, told):
    with pytest.raises(ConfigurationError, match=told):
        Knobs.of(program(), grid)


@dataclass(frozen=True)
class Low(VoteGate):
    """A gate that takes low thresholds only."""

    def __post_init__(self) -> None:
        if self.threshold > Fraction(1, 2):
            raise ValueError("too high")


@pytest.mark.parametrize("thresholds", [("1",), ("0.4", "1")])
def test_a_threshold_that_a_gate_does_not_take_is_refused(program, thresholds):
    gate = Low(Fraction(1, 2))
    assert Knobs.of(program(gate=gate), Grid(thresholds=("0.4",))).thresholds == ("1/2", "2/5")
    told = r"^the gate 'votes' cannot be given the threshold 1/1 \(too high\): give Grid\(thresholds=\(\)\)"
    with pytest.raises(ConfigurationError, match=told):
        Knobs.of(program(gate=gate), Grid(thresholds=thresholds))
