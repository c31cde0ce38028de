"""What a compilation takes as its options."""

from __future__ import annotations

import pytest

from keqa.errors import ConfigurationError
from keqa.optimize.options import Options


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
        *(({name: -1}, f"{name} must be a whole number from 0") for name in ("demos", "judge_demos", "sets")),
        ({"in_flight": 0}, "in_flight must be a whole number from 1"),
        *(({"threshold": value}, "threshold must be a number from 0 to 1") for value in (-0.1, 1.1)),
        *(({"cost_per_retrieval": value}, "a number from 0") for value in (-0.1, float("inf"), float("nan"))),
        ({"grid": 3}, "grid must be"),
        ({"training": 3}, "training must be"),
        ({"boundary_tries": 4}, "boundary_tries must be a whole number from 5 to 1,000, not 4"),
        ({"reflection_lm": "openai/x"}, "that of gepa, mipro, simba, and bootstrap has none"),
        ({"optimizer": "none", "reflection_lm": "openai/x"}, "none has none"),
        ({"budget": 5}, "that of gepa, mipro, simba, and bootstrap has none"),
        ({"optimizer": "magic"}, "unknown optimizer 'magic'"),
        ({"optimizer": "gepa"}, "^gepa needs a language model that is able to reflect"),
    ],
)
def test_what_cannot_work_is_refused(wrong, told):
    with pytest.raises(ConfigurationError, match=told):
        Options(**wrong)
