"""Certainty in its three forms."""

from __future__ import annotations

import math

import pytest

from keqa.metrics.samples import (
    CERTAINTIES,
    answer_type_sizes,
    certainty_by_samples,
    certainty_by_types,
    entropy,
    plain_certainty,
)


def test_the_three_forms_of_four_to_one():
    h = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    assert certainty_by_types([4, 1]) == pytest.approx(1 - h / math.log(2))
    assert plain_certainty([4, 1]) == pytest.approx(1 - h)
    assert certainty_by_samples([4, 1]) == pytest.approx(1 - h / math.log(5))


def test_literal_values():
    assert certainty_by_types([4, 1]) == pytest.approx(0.2781, abs=1e-4)
    assert plain_certainty([4, 1]) == pytest.approx(0.4996, abs=1e-4)
    assert certainty_by_samples([4, 1]) == pytest.approx(0.6891, abs=1e-4)


@pytest.mark.parametrize("form", CERTAINTIES)
def test_one_group_is_certain(form):
    assert CERTAINTIES[form]([30]) == CERTAINTIES[form]([1]) == 1.0


def test_all_different():
    assert certainty_by_types([1] * 5) == pytest.approx(0.0)
    assert certainty_by_samples([1] * 5) == pytest.approx(0.0)
    assert plain_certainty([1] * 5) == pytest.approx(1 - math.log(5))


@pytest.mark.parametrize("count", [5, 12, 13, 57])
def test_rounding_takes_none_below_0(count):
    assert certainty_by_types([1] * count) >= 0
    assert certainty_by_types([3] * count) >= 0
    assert certainty_by_samples([1] * count) >= 0


def test_only_by_types_forgets_how_many_groups_there_are():
    assert certainty_by_types([15, 15]) == pytest.approx(certainty_by_types([2] * 15)) == pytest.approx(0.0)
    assert certainty_by_samples([15, 15]) > certainty_by_samples([2] * 15)


@pytest.mark.parametrize("form", CERTAINTIES)
@pytest.mark.parametrize("sizes", [[], [3, 0]])
def test_no_group_has_no_certainty(form, sizes):
    with pytest.raises(ValueError, match="at least one"):
        CERTAINTIES[form](sizes)


def test_exact_answer_types():
    assert answer_type_sizes(["Oslo", "oslo.", "Bergen", "the Oslo"]) == [3, 1]
    assert answer_type_sizes(["A", "(a)", "B"], "choice") == [2, 1]
    assert answer_type_sizes(["A", "Oslo", "B"], "choice", ("Oslo", "Bergen")) == [2, 1]
    assert answer_type_sizes(["yes", "True", "no"], "yes/no") == [2, 1]


def test_entropy_is_that_of_the_shares():
    assert entropy([7]) == 0.0
    assert entropy([2, 2]) == pytest.approx(math.log(2))
    assert entropy([4, 1]) == pytest.approx(0.5004, abs=1e-4)
