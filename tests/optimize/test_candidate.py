"""Whose demonstrations are shown to which question, and which are drawn."""

from __future__ import annotations

import random

import pytest

from keqa.optimize.demos import Candidate, choose


def drawn(pool, count, seed=0, **options):
    return choose(pool, count, random.Random(seed), **options)


@pytest.mark.parametrize(("length", "fits"), [(6000, True), (6001, False)])
def test_a_demonstration_may_have_so_many_characters(length, fits):
    pool = [Candidate({"number": 12345, "text": "x" * (length - 5)}, "a", "r")]
    assert (drawn(pool, 1) == pool) is fits


@pytest.mark.parametrize("seed", range(6))
def test_kinds_come_in_turn_and_new_questions_first(seed):
    pool = [Candidate({"n": f"{kind}{n}"}, kind, f"root{n}") for kind in "ab" for n in range(3)]
    chosen = drawn(pool, 3, seed)
    assert sorted(one.kind for one in chosen) in (["a", "a", "b"], ["a", "b", "b"])
    assert {one.root for one in chosen} == {"root0", "root1", "root2"}
    # Where no question is left, another demonstration of one is better than none.
    assert len(drawn(pool, 5, seed)) == 5
    assert sorted(str(one) for one in drawn(pool, 9, seed)) == sorted(map(str, pool))
    single = [Candidate({"n": n}, "a", "r") for n in range(3)]
    assert len(drawn(single, 2, seed)) == 2


def test_draws_differ_in_choice_and_order():
    pool = [Candidate({"n": n}, "ab"[n % 2], f"r{n}") for n in range(6)]
    orders = {tuple(one.demo["n"] for one in drawn(pool, 6, seed)) for seed in range(12)}
    assert len(orders) > 6
    # Mixed once more at the end: kinds do not alternate.
    assert any([n % 2 for n in order] not in ([0, 1] * 3, [1, 0] * 3) for order in orders)


@pytest.mark.parametrize(
    ("kinds", "count", "each"),
    [("TTFF", 4, 2), ("TTFF", 3, 1), ("TTTF", 8, 1), ("TF", 1, 0), ("TFTFTF", 5, 2), ("TT", 2, 0), ("", 2, 0)],
)
def test_a_judge_sees_verdicts_equally_often(kinds, count, each):
    pool = [Candidate({"n": n}, kind, f"r{n}") for n, kind in enumerate(kinds)]
    assert sorted(one.kind for one in drawn(pool, count, balanced=True)) == ["F"] * each + ["T"] * each
