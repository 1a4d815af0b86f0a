"""Intervals against closed forms and plain loops; the same whatever the order, the chunk and the route."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from probes import resampling, statistics
from probes.errors import InputError
from probes.metrics import classification as metric


def mean(sums):
    return sums[:, 0] / sums[:, 1]


def with_ones(values):
    return np.stack([values, np.ones(len(values))], axis=1)


def test_wilson():
    assert statistics.wilson(50, 50) == pytest.approx((0.9287, 1.0), abs=5e-5)
    assert statistics.wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert statistics.wilson(50, 50)[1] == 1.0
    assert statistics.wilson(0, 20)[0] == 0.0
    assert statistics.wilson(7, 10) == pytest.approx((0.3968, 0.8922), abs=5e-5)
    low, high = statistics.wilson(70, 100, level=0.5)
    assert statistics.wilson(70, 100)[0] < low < 0.7 < high < statistics.wilson(70, 100)[1]
    with pytest.raises(InputError, match="no proportion"):
        statistics.wilson(3, 2)


@given(st.integers(1, 10**7), st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_wilson_holds_the_proportion(n, share):
    successes = round(share * n)
    low, high = statistics.wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert low < high


def test_intervals_stay_what_they_are():
    values = np.arange(100) % 17 / 16
    assert statistics.bootstrap(with_ones(values), mean) == pytest.approx((0.43123, 0.54688), abs=5e-5)
    assert statistics.bootstrap(with_ones(np.arange(900) % 3 == 0), mean) == pytest.approx(
        (0.30444, 0.36558), abs=5e-5
    )


@pytest.mark.parametrize("distinct", [2, 1000])
def test_the_mean_has_its_textbook_interval(distinct):
    values = np.random.default_rng(0).integers(0, distinct, 2000) / distinct
    low, high = statistics.bootstrap(with_ones(values), mean, resamples=4000)
    half = 1.96 * values.std() / np.sqrt(2000)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.06 * half)


@pytest.mark.parametrize("distinct", [3, 5000])
def test_neither_order_nor_chunk_matters(distinct, monkeypatch):
    rows = with_ones(np.random.default_rng(1).integers(0, distinct, 200).astype(float))
    whole = statistics.bootstrap(rows, mean, seed=3)
    assert statistics.bootstrap(rows[::-1], mean, seed=3) == whole
    assert distinct == 3 or statistics.bootstrap(rows, mean, seed=4) != whole
    monkeypatch.setattr(resampling, "CHUNK", 1000)
    assert statistics.bootstrap(rows, mean, seed=3) == pytest.approx(whole, rel=1e-12)


def test_several_values_and_undefined_ones():
    rows = with_ones(np.arange(50.0))
    both = statistics.bootstrap(rows, lambda sums: np.stack([mean(sums), np.full(len(sums), np.nan)], 1))
    assert (both[0][0], both[1][0]) == statistics.bootstrap(rows, mean)
    assert np.isnan(both[0][1])
    scattered = statistics.bootstrap(rows, lambda sums: np.where(sums[:, 0] % 2, np.nan, mean(sums)))
    assert scattered == pytest.approx(statistics.bootstrap(rows, mean), abs=1)


def test_weights_multiply_a_rows_statistics():
    rows, weights = with_ones(np.arange(30.0)), np.arange(30) % 3
    assert statistics.bootstrap(rows, mean, weights=weights) == statistics.bootstrap(
        rows * weights[:, None], mean
    )


@pytest.mark.parametrize("n", [60, 4000])
def test_a_confusion_matrix_is_its_rows(n):
    rng = np.random.default_rng(n)
    target = rng.integers(0, 3, n)
    guess = np.where(rng.random(n) < 0.7, target, rng.integers(0, 5, n))
    confusion = np.bincount(target * 5 + guess, minlength=25).reshape(5, 5)
    hot = np.eye(5)
    rows = np.concatenate([hot[target] * (target == guess)[:, None], hot[target], hot[guess]], 1)
    for value in (metric.balanced_accuracy, metric.macro_f1):
        expected = statistics.bootstrap(
            rows, lambda sums, value=value: value(*np.split(sums, 3, axis=1)), resamples=4000
        )
        found = statistics.bootstrap_confusion(confusion, value, resamples=4000)
        assert found == pytest.approx(expected, abs=0.1 * (expected[1] - expected[0]))


def test_paired_comparisons():
    rng = np.random.default_rng(0)
    a = rng.random(400)
    same = statistics.paired_bootstrap(a, a)
    assert same == (0, 0, 0, 1)
    assert statistics.permutation_test(a, a) == 1
    b = a - 0.02 + 0.1 * rng.standard_normal(400)
    found = statistics.paired_bootstrap(a, b)
    assert found.difference == pytest.approx((a - b).mean())
    assert 0 < found.low < found.difference < found.high
    assert found.p < 0.01
    assert statistics.permutation_test(a, b) < 0.01
    hits = a > 0.5, b > 0.5
    assert statistics.paired_bootstrap(*hits) == statistics.paired_bootstrap(*(1.0 * h for h in hits))
    turned = statistics.paired_bootstrap(b, a)
    assert turned.difference == pytest.approx(-found.difference)
    assert statistics.permutation_test(a, b) == pytest.approx(statistics.permutation_test(b, a), abs=0.003)


SCORES = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=1, max_size=40)


@given(SCORES, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_exchanging_the_two_turns_signs_and_keeps_p(scores, seed):
    a, b = np.array(scores, float).T / 4
    found, turned = (
        statistics.paired_bootstrap(*pair, seed=seed, resamples=200) for pair in ((a, b), (b, a))
    )
    assert (turned.difference, turned.p) == (-found.difference, found.p)
    if sorted(a - b) != sorted(b - a):
        assert (turned.low, turned.high) == (-found.high, -found.low)
    one, other = (statistics.permutation_test(*pair, seed=seed, resamples=200) for pair in ((a, b), (b, a)))
    assert one == other


@given(SCORES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_samples_changes_nothing(scores, random):
    shuffled = random.sample(scores, len(scores))
    pairs = np.array(scores, float).T, np.array(shuffled, float).T
    assert len({statistics.paired_bootstrap(*pair, resamples=200) for pair in pairs}) == 1
    assert len({statistics.permutation_test(*pair, resamples=200) for pair in pairs}) == 1
    assert len({statistics.bootstrap(pair.T + 5, mean, resamples=200) for pair in pairs}) == 1
    first, second = (statistics.pairwise_bootstrap(pair.T, resamples=200) for pair in pairs)
    assert (first == second).all()


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30), st.floats(-10, 10))
@settings(max_examples=60, deadline=None)
def test_a_symmetric_sample_has_its_centre_inside(values, centre):
    mirrored = centre + np.array([*values, *(-value for value in values)])
    low, high = statistics.bootstrap(with_ones(mirrored), mean)
    assert low - 1e-9 <= centre <= high + 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
@settings(max_examples=40, deadline=None)
def test_nothing_differs_from_itself(values):
    a = np.array(values)
    assert statistics.paired_bootstrap(a, a, resamples=100) == (0, 0, 0, 1)
    assert statistics.permutation_test(a, a, resamples=100) == 1
    assert (statistics.pairwise_bootstrap(np.stack([a, a, a], 1), resamples=100) == 1).all()


def test_all_pairs_at_once_agree_with_one_after_the_other():
    rng = np.random.default_rng(4)
    scores = rng.random((300, 5)) + np.array([0, 0.01, 0.05, 0.05, 0.3])
    found = statistics.pairwise_bootstrap(scores, resamples=20_000)
    assert (found == found.T).all()
    assert found.diagonal().tolist() == [1] * 5
    for i, j in ((0, 1), (0, 2), (1, 3), (2, 3)):
        one = statistics.paired_bootstrap(scores[:, i], scores[:, j], resamples=20_000)
        assert found[i, j] == pytest.approx(one.p, rel=0.2, abs=0.002)


def test_the_tail_tells_small_p_that_resamples_cannot():
    rng = np.random.default_rng(6)
    a = rng.standard_normal(500)
    b = a + 0.25 + rng.standard_normal(500)
    (found,) = statistics.pairwise_bootstrap(np.stack([a, b], 1))[0, 1:]
    assert found == pytest.approx(ttest_rel(a, b).pvalue, rel=0.9)
    assert found < 2 / 1001 == statistics.paired_bootstrap(a, b).p
    certain = np.stack([np.zeros(50), np.ones(50)], 1)
    assert statistics.pairwise_bootstrap(certain)[0, 1] == 2.0**-49  # the least that so many can tell


def test_a_resample_at_zero_is_there_whatever_the_rounding():
    whole = np.array([1.0, 2.0, -3.0])  # as tenths they do not add up to 0
    counted = statistics.paired_bootstrap(whole, np.zeros(3))
    assert statistics.paired_bootstrap(whole / 10, np.zeros(3)).p == counted.p


def test_draws_are_those_of_a_plain_loop():
    counts = np.array([1, 3, 1, 2])
    generator, owner = np.random.Generator(np.random.PCG64(7)), np.repeat(np.arange(4), counts)
    plain = [np.bincount(owner[generator.integers(0, 7, 7)], minlength=4) for _ in range(50)]
    (drawn,) = resampling.resampled(counts, 50, 7)
    assert (drawn == plain).all()


def test_a_permutation_test_of_hits_is_the_sign_test():
    a, b = np.repeat([1.0, 0.0, 1.0], [15, 5, 300]), np.repeat([0.0, 1.0, 1.0], [15, 5, 300])
    assert statistics.permutation_test(a, b) == pytest.approx(
        0.04139, abs=0.006
    )  # binomial, two-sided, 5 of 20


@pytest.mark.parametrize("shift", [0.0, 0.08, 0.15])
def test_a_permutation_test_of_many_values_is_nearly_a_t_test(shift):
    a, b = np.random.default_rng(2).standard_normal((2, 800))
    assert statistics.permutation_test(a + shift, b) == pytest.approx(
        ttest_rel(a + shift, b).pvalue, abs=0.015
    )


def test_swaps_do_not_depend_on_chunks(monkeypatch):
    a, b = np.random.default_rng(5).random((2, 77))
    whole = statistics.permutation_test(a, b, resamples=500)
    monkeypatch.setattr(resampling, "CHUNK", 1000)
    assert statistics.permutation_test(a, b, resamples=500) == whole


def test_few_samples_that_differ_tell_nothing():
    for n, least in ((1, 1.0), (2, 0.5), (5, 0.0625), (6, 0.03125)):
        a, b = np.full(40, 0.5), np.full(40, 0.5)
        a[:n] += 0.4
        assert statistics.paired_bootstrap(a[:n], b[:n]).p == least
        assert statistics.pairwise_bootstrap(np.stack([a, b], axis=1))[0, 1] >= least


def test_holm():
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.9, 0.8]).tolist() == [1, 1]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_holm_keeps_the_order_and_only_raises(p_values):
    adjusted = statistics.holm(p_values)
    assert (adjusted >= np.array(p_values)).all()
    assert (np.diff(adjusted[np.argsort(p_values)]) >= 0).all()
    assert (adjusted <= 1).all()


def test_what_makes_no_interval_is_refused():
    with pytest.raises(InputError, match="not all finite"):
        statistics.bootstrap(np.array([[np.nan]]), mean)
    with pytest.raises(InputError, match="level is 95"):
        statistics.bootstrap(np.ones((3, 2)), mean, level=95.0)
    with pytest.raises(InputError, match="resamples is 0"):
        statistics.bootstrap(np.ones((3, 2)), mean, resamples=0)
    with pytest.raises(InputError, match="2 weights came for 3 rows"):
        statistics.bootstrap(np.ones((3, 2)), mean, weights=np.ones(2))
    with pytest.raises(InputError, match="same samples"):
        statistics.paired_bootstrap(np.ones(3), np.ones(4))
    with pytest.raises(InputError, match="empty"):
        statistics.bootstrap_confusion(np.zeros((2, 2), int), metric.macro_f1)
