import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probes.metrics import normals
from probes.metrics.angles import arctangent


def maps(*rows):
    return jnp.asarray(np.array(rows, np.float32)[:, None])


def directions(seed, *shape):
    drawn = np.random.default_rng(seed).standard_normal((*shape, 3))
    return (drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).astype(np.float32)


def value(prediction, target):
    return normals.value(normals.tally(prediction, target))


def test_the_colour_of_a_picture_is_a_third_of_a_degree_off():
    coloured = 2 * np.array([128, 128, 255]) / 255 - 1
    assert value(maps([coloured]), maps([[0, 0, 1]]))["mean"] == pytest.approx([0.318], abs=1e-3)


def test_length_does_not_count_and_what_is_zero_is_left_out():
    truth = maps([[0, 0, 1], [0, 0, 1], [0, 0, 0]])
    tally = normals.tally(maps([[0, 0, 2], [0, 0, -1], [1, 0, 0]]), truth)
    assert tally.pixels.tolist() == [2]
    assert normals.value(tally)["mean"].tolist() == [90]
    assert normals.value(tally)["d1"].tolist() == [0.5]
    assert tally.median.tolist() == [90]
    assert normals.value(tally)["rmse"] == pytest.approx([180 / 2**0.5])


def test_a_prediction_of_zero_is_as_good_as_none():
    found = value(maps([[0, 0, 0]]), maps([[0, 0, 1]]))
    assert found["mean"].tolist() == [90]


@pytest.mark.parametrize("seed", range(3))
def test_values_are_those_of_the_formulas(seed):
    truth, said = directions(seed, 2, 8, 11), directions(seed + 9, 2, 8, 11)
    said += 2 * truth
    truth[np.random.default_rng(seed).random((2, 8, 11)) < 0.3] = 0
    tally = normals.tally(jnp.asarray(said), jnp.asarray(truth))
    found = normals.value(tally)
    errors = []
    for row in range(2):
        known = (truth[row] != 0).any(-1)
        t, p = truth[row][known].astype(float), said[row][known].astype(float)
        cosine = (t * p).sum(-1) / np.linalg.norm(t, axis=-1) / np.linalg.norm(p, axis=-1)
        errors.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
        assert found["mean"][row] == pytest.approx(errors[-1].mean(), rel=1e-5)
        assert found["rmse"][row] == pytest.approx(np.sqrt((errors[-1] ** 2).mean()), rel=1e-5)
        assert tally.median[row] == pytest.approx(np.median(errors[-1]), rel=1e-5)
        for name, limit in (("d1", 11.25), ("d2", 22.5), ("d3", 30)):
            assert found[name][row] == pytest.approx((errors[-1] < limit).mean())
    pooled = jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally)
    assert normals.pooled_median(pooled.histogram) == pytest.approx(
        np.median(np.concatenate(errors)), abs=0.5
    )
    assert normals.value(pooled)["mean"] == pytest.approx(np.concatenate(errors).mean(), rel=1e-5)


def test_the_pooled_median_lies_within_its_bin():
    truth = directions(0, 1, 90, 90)
    said = truth + 0.7 * directions(1, 1, 90, 90)
    tally = normals.tally(jnp.asarray(said), jnp.asarray(truth))
    assert normals.pooled_median(tally.histogram) == pytest.approx(np.asarray(tally.median), abs=0.1)
    both = np.stack([np.asarray(tally.histogram[0]), np.zeros(normals.BINS)])
    assert np.isnan(normals.pooled_median(both)).tolist() == [False, True]


def test_without_a_valid_pixel_there_is_no_value():
    tally = normals.tally(maps([[0, 0, 1]]), maps([[0, 0.05, 0.05]]))
    assert all(np.isnan(each).all() for each in normals.value(tally).values())
    assert np.isnan(tally.median).all()


def test_the_arc_is_that_of_atan2_and_so_is_its_slope():
    angles = np.concatenate([np.linspace(0, np.pi, 2001), 10.0 ** np.arange(-8, 0)])
    sine, cosine = (np.asarray(3 * f(angles), np.float32) for f in (np.sin, np.cos))
    sine = np.maximum(sine, 0)
    found = jax.jit(arctangent)(jnp.asarray(sine), jnp.asarray(cosine))
    expected = np.arctan2(sine.astype(float), cosine.astype(float))
    np.testing.assert_allclose(np.asarray(found), expected, atol=3e-7, rtol=3e-7)
    slopes = jax.grad(lambda *point: arctangent(*point).sum(), (0, 1))(jnp.asarray(sine), jnp.asarray(cosine))
    np.testing.assert_allclose(slopes[0], np.cos(expected) / 3, atol=1e-6)
    np.testing.assert_allclose(slopes[1], -np.sin(expected) / 3, atol=1e-6)
