"""What a compilation takes as its options."""

from __future__ import annotations

import pytest

from keqa.errors import ConfigurationError
from keqa.optimize.options import Options
from keqa.optimize.search_space import Grid


def test_what_is_not_chosen():
    assert Options() == Options("bootstrap", None, "light", 4, 8, 4, 0.5, True, None, True, Grid(), None, 0, 8)


@pytest.mark.parametrize(
    "least",
    [{"demos": 0, "judge_demos": 0, "sets": 0}, {"in_flight": 1}, {"threshold": 0}, {"threshold": 1}]
    + [{"cost_per_retrieval": value} for value in (0, 0.5, 1e6)],
)
def test_limits_may_be_reached(least):
    assert Options(**least) == Options(**least)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        *(({name: -1}, "must not be negative") for name in ("demos", "judge_demos", "sets")),
        ({"in_flight": 0}, "in_flight at least 1"),
        ({"threshold": -0.1}, "the threshold from 0 to 1"),
        ({"threshold": 1.1}, "the threshold from 0 to 1"),
        *(({"cost_per_retrieval": value}, "a number from 0") for value in (-0.1, float("inf"), float("nan"))),
        ({"grid": {}}, r"must be a keqa.optimize.search_space.Grid, not \{\}"),
        ({"reflection_lm": "openai/x"}, "asked by gepa, mipro, simba; bootstrap asks none"),
        ({"optimizer": "none", "reflection_lm": "openai/x"}, "none asks none"),
        ({"budget": 5}, "that of gepa, mipro, simba; bootstrap has none"),
        ({"optimizer": "magic"}, "unknown optimizer 'magic'"),
        ({"optimizer": "gepa"}, "^gepa needs a language model that is able to reflect"),
    ],
)
def test_what_cannot_work_is_refused(wrong, told):
    with pytest.raises(ConfigurationError, match=told):
        Options(**wrong)
