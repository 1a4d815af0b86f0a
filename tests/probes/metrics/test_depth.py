import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_percentage_error, root_mean_squared_error

from probes.metrics import depth

MEDIAN = jax.jit(depth.median)


def maps(*rows):
    return jnp.asarray(np.array(rows, np.float32)[:, None])


def value(prediction, target):
    return depth.value(depth.tally(prediction, target))


def random_maps(seed, n=3, size=(9, 13), holes=0.3):
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.5, 10, (n, *size)).astype(np.float32)
    said = (truth * rng.lognormal(0, 0.4, truth.shape)).astype(np.float32)
    return jnp.asarray(said), jnp.asarray(
        np.where(rng.random(truth.shape) < holes, 0, truth).astype(np.float32)
    )


def test_a_map_of_two_known_pixels():
    found = value(maps([1.1, 1.8, 5]), maps([1, 2, 0]))
    assert found["abs_rel"] == pytest.approx([0.1], abs=1e-6)
    assert found["rmse"] == pytest.approx([0.1581], abs=1e-4)
    assert found["d1"].tolist() == [1.0]


def test_per_image_and_pooled_differ_and_are_both_there():
    truth = np.zeros((2, 1, 8), np.float32)
    truth[0, 0, 0], truth[1] = 2, 2
    said = truth.copy()
    said[0, 0, 0] = 3
    total = depth.tally(jnp.asarray(said), jnp.asarray(truth))
    assert depth.value(total)["rmse"].mean() == pytest.approx(0.5)
    assert depth.value(jax.tree.map(lambda leaf: leaf.sum(0), total))["rmse"] == pytest.approx(1 / 3)


def test_twice_the_truth_is_wrong_in_metres_and_right_once_aligned():
    _, truth = random_maps(0)
    found = value(2 * truth, truth)
    assert (found["d1"] == 0).all()
    assert (found["d1_aligned"] == 1).all()
    assert found["abs_rel"] == pytest.approx(1, abs=1e-6)
    assert found["abs_rel_aligned"] == pytest.approx(0, abs=1e-6)
    assert found["rmse_aligned"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_the_formulas(seed):
    said, truth = random_maps(seed)
    found = value(said, truth)
    for row in range(len(truth)):
        known = np.asarray(truth[row]) > 0
        t, p = (np.asarray(m[row], np.float64)[known] for m in (truth, said))
        for suffix, scale in (("", 1), ("_aligned", np.median(t) / np.median(p))):
            p = p * scale
            ratio = np.maximum(p / t, t / p)
            for power in (1, 2, 3):
                assert found[f"d{power}{suffix}"][row] == pytest.approx((ratio < 1.25**power).mean())
            assert found[f"rmse{suffix}"][row] == pytest.approx(root_mean_squared_error(t, p), rel=1e-5)
            expected = mean_absolute_percentage_error(t, p)
            assert found[f"abs_rel{suffix}"][row] == pytest.approx(expected, rel=1e-5)


def test_degenerate_maps():
    found = value(maps([1, 1, 1], [3, 3, 3], [-1, 0, 2]), maps([0, np.nan, -np.inf], [0, 2, 0], [1, 1, 1]))
    assert all(np.isnan(each[0]) for each in found.values())
    assert (found["abs_rel"][1], found["abs_rel_aligned"][1]) == (0.5, 0)
    assert found["d3"][2] == 0
    assert np.isfinite(found["rmse_aligned"][2])


def test_what_is_not_valid_changes_nothing():
    said, truth = random_maps(5)
    other = jnp.where(truth > 0, said, jnp.nan)
    for name, each in value(said, truth).items():
        np.testing.assert_array_equal(value(other, truth)[name], each)


def test_sums_keep_leading_axes():
    total = depth.tally(*random_maps(1, n=4))
    halves = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64).reshape(2, 2, *leaf.shape[1:]).sum(1), total
    )
    found = depth.value(halves)
    assert all(each.shape == (2,) and each.dtype == np.float64 for each in found.values())
    first = jax.tree.map(lambda leaf: leaf[0], halves)
    assert depth.value(first)["rmse"] == found["rmse"][0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.booleans())
def test_the_median_is_numpys(seed, count, coarse):
    rng = np.random.default_rng(seed)
    values = rng.lognormal(0, 3, (3, 4)).astype(np.float32)
    if coarse:
        values = np.round(values)
    where = np.zeros(12, bool)
    where[rng.permutation(12)[:count]] = True
    where = where.reshape(3, 4)
    found = float(MEDIAN(jnp.asarray(values), jnp.asarray(where)))
    assert found == np.median(values[where]) if count else np.isnan(found)
