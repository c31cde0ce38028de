import tracemalloc

import pytest

from keqa.metrics.significance import bootstrap_mean, mcnemar, paired_bootstrap, paired_t_test

BAD = ([], [1.0], [1.0, float("nan")], [1.0, float("inf")])


def test_mean_and_interval_of_a_coin():
    interval = bootstrap_mean([0.0, 1.0] * 50)
    assert interval.mean == 0.5
    # The standard error of 100 fair coins is .05, so the interval is about .5 plus and minus .098.
    assert interval.low == pytest.approx(0.402, abs=0.012)
    assert interval.high == pytest.approx(0.598, abs=0.012)


def test_pairs_are_kept_together():
    # The scores vary a lot between questions, the difference not at all: a paired interval has no width.
    a = [0.1, 0.9, 0.3, 0.7, 0.5]
    interval = paired_bootstrap([x + 0.05 for x in a], a)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.05, 0.05, 0.05))
    assert interval.excludes_zero
    # Of two questions one was won.
    interval = paired_bootstrap([1.0, 0.0], [0.0, 0.0])
    assert (interval.mean, interval.low, interval.high) == (0.5, 0.0, 1.0)
    assert not interval.excludes_zero


def test_ten_thousand_resamples_the_same_each_time():
    scores, other = [i**0.5 % 1 for i in range(40)], [i**0.3 % 1 for i in range(40)]
    for measure, given_ in ((bootstrap_mean, [scores]), (paired_bootstrap, [scores, other])):
        assert measure(*given_) == measure(*given_, resamples=10_000) != measure(*given_, resamples=9_999)


def test_t_test_by_hand():
    # Differences 1, 2, 3: mean 2, standard deviation 1, t = 2·√3 with two degrees of freedom.
    # There p = 1 − t / √(2 + t²) = 1 − √(12 / 14).
    assert paired_t_test([2.0, 3.0, 4.0], [1.0, 1.0, 1.0]) == pytest.approx(1 - (12 / 14) ** 0.5)
    assert paired_t_test([0.5, 1.0, 0.0], [0.5, 1.0, 0.0]) == 1.0
    assert paired_t_test([0.8, 0.7], [0.3, 0.2]) == 0.5  # two questions show nothing, however alike


@pytest.mark.parametrize("bad", BAD)
def test_scores_that_cannot_be_compared(bad):
    for measure in (lambda: bootstrap_mean(bad), lambda: paired_t_test(bad, [0.0] * len(bad))):
        with pytest.raises(ValueError, match="at least two scores are needed, all of them finite numbers"):
            measure()
    for paired in (paired_bootstrap, paired_t_test, mcnemar):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            paired([1.0, 0.0], [1.0, 0.0, 1.0])


def test_many_questions_take_no_more_memory_at_once():
    scores = [float(n % 2) for n in range(50_000)]
    tracemalloc.start()
    interval = bootstrap_mean(scores, resamples=100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 2**20
    assert interval.low < 0.5 < interval.high


def test_a_bound_that_is_zero_on_paper_is_zero():
    found = paired_bootstrap([0, 1, 2 / 3, 1, 1, 0, 1, 1], [0, 0, 1, 1, 0, 0, 0, 1])
    assert (found.low, str(found.low)) == (0, "0.0")


def test_mcnemar_by_hand():
    # 6 questions tell the two apart, 5 of them for a: 2 · (6 + 1) / 64.
    a = [1, 1, 1, 1, 1, 0, 1, 0]
    b = [0, 0, 0, 0, 0, 1, 1, 0]
    assert mcnemar(a, b) == pytest.approx(14 / 64)
    # Nothing tells them apart.
    assert mcnemar([True, False], [True, False]) == 1.0
    assert mcnemar([1, 0], [0, 1]) == 1.0
