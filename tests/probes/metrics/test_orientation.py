"""Errors of orientation: arccosine in 64 bit, sorted weighted medians, no direction, no weight, sums."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.metrics import orientation


def vectors(double: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(double), np.sin(double)], -1).astype(np.float32)


def drawn(seed: int, count: int = 4, side: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    shape = count, side, side
    true = rng.uniform(-np.pi, np.pi, shape)
    weight = (rng.random(shape) * (rng.random(shape) < 0.8)).astype(np.float32)
    said = vectors(true + rng.normal(0, 1, shape))
    return said, np.concatenate([vectors(true), weight[..., None]], -1)


def errors(said: np.ndarray, target: np.ndarray) -> np.ndarray:
    cosine = (said.astype(float) * target[..., :2]).sum(-1) / np.linalg.norm(said.astype(float), axis=-1)
    return np.rad2deg(np.arccos(np.clip(cosine, -1, 1))) / 2


def median(error: np.ndarray, weight: np.ndarray) -> float:
    order = np.argsort(error, axis=None)
    reached = weight.ravel()[order].astype(float).cumsum()
    return float(error.ravel()[order][np.searchsorted(reached, reached[-1] / 2)])


def summed(tally: orientation.Tally) -> orientation.Tally:
    return jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_slow_reference_agrees(seed):
    said, target = drawn(seed)
    tally = orientation.tally(said, target)
    found, all_error = orientation.value(tally), errors(said, target)
    for row, error in enumerate(all_error):
        weight = target[row, ..., 2]
        assert found["mean_error_deg"][row] == pytest.approx(np.average(error, weights=weight), abs=1e-3)
        assert found["median_error_deg"][row] == pytest.approx(median(error, weight), abs=0.05)
    pooled = orientation.pooled(summed(tally))
    assert pooled["mean_error_deg"] == pytest.approx(np.average(all_error, weights=target[..., 2]), abs=1e-3)
    assert pooled["median_error_deg"] == pytest.approx(median(all_error, target[..., 2]), abs=0.3)


def test_equal_weights_give_the_ordinary_median():
    said, target = drawn(0, side=5)
    target[..., 2] = 0.5
    expected = np.median(errors(said, target).reshape(4, -1), axis=1)
    assert orientation.value(orientation.tally(said, target))["median_error_deg"] == pytest.approx(
        expected, abs=1e-3
    )


@pytest.mark.parametrize("off", [0.0, 1e-4, 0.01, 22.5, 45.0, 89.99, 90.0])
def test_known_angles(off):
    double = np.random.default_rng(0).uniform(-np.pi, np.pi, (1, 8, 8))
    target = np.concatenate([vectors(double), np.ones((1, 8, 8, 1), np.float32)], -1)
    for turned in (double + np.deg2rad(2 * off), double - np.deg2rad(2 * off)):
        tally = orientation.tally(vectors(turned), target)
        value, pooled = orientation.value(tally), orientation.pooled(summed(tally))
        assert value["mean_error_deg"] == pytest.approx([off], abs=1e-5)
        assert value["median_error_deg"] == pytest.approx([off], abs=1e-5)
        assert pooled["mean_error_deg"] == pytest.approx(off, abs=1e-5)
        assert pooled["median_error_deg"] == pytest.approx(off, abs=0.25)


def test_chance_and_no_direction_are_half_of_a_right_angle():
    _, target = drawn(1, count=2, side=64)
    rng = np.random.default_rng(2)
    value = orientation.value(orientation.tally(vectors(rng.uniform(0, 2 * np.pi, (2, 64, 64))), target))
    assert value["mean_error_deg"] == pytest.approx([orientation.CHANCE_DEG] * 2, abs=2)
    value = orientation.value(orientation.tally(np.zeros((2, 64, 64, 2), np.float32), target))
    assert value["mean_error_deg"] == pytest.approx([orientation.CHANCE_DEG] * 2, abs=1e-4)
    assert value["median_error_deg"] == pytest.approx([orientation.CHANCE_DEG] * 2, abs=1e-4)


def test_pixels_without_coherence_do_not_matter_and_images_without_have_no_error():
    said, target = drawn(3)
    none = target[..., 2] == 0
    changed = np.where(none[..., None], -said, said)
    tally = orientation.tally(said, target)
    for a, b in zip(tally, orientation.tally(changed, target), strict=True):
        assert np.asarray(a) == pytest.approx(np.asarray(b))
    target[0, ..., 2] = 0
    target[1, ..., 2] = 0
    target[1, 4, 4, 2] = 0.3  # a single pixel
    tally = orientation.tally(said, target)
    value = orientation.value(tally)
    assert np.isnan([value["mean_error_deg"][0], value["median_error_deg"][0]]).all()
    one = errors(said, target)[1, 4, 4]
    assert [value["mean_error_deg"][1], value["median_error_deg"][1]] == pytest.approx([one, one], abs=1e-4)
    weights = np.array([[1, 1, 1, 1], [1, 0, 0, 0], [0, 2, 0, 0]])  # resamples: leading axes are kept
    many = orientation.pooled(orientation.Tally(*(weights @ np.asarray(leaf) for leaf in tally)))
    assert np.isnan(many["mean_error_deg"]).tolist() == [False, True, False]
    assert np.isnan(many["median_error_deg"]).tolist() == [False, True, False]
    assert many["median_error_deg"][2] == pytest.approx(one, abs=0.25)


def test_angles_between_vectors_of_any_length():
    rng = np.random.default_rng(0)
    said, true = rng.standard_normal((2, 50, 2)).astype(np.float32)
    found = np.asarray(orientation.angle(jnp.asarray(said), jnp.asarray(true)))
    cosine = (said * true).sum(-1) / np.linalg.norm(said, axis=-1) / np.linalg.norm(true, axis=-1)
    assert found == pytest.approx(np.arccos(cosine), abs=1e-3)
    assert np.asarray(orientation.angle(jnp.asarray(7 * said), jnp.asarray(true))) == pytest.approx(
        found, abs=1e-5
    )


def test_one_direction_for_all():
    said, target = drawn(5)
    one = said[:1, :1, :1]
    spread = np.broadcast_to(one, said.shape)
    for a, b in zip(orientation.tally(one, target), orientation.tally(spread, target), strict=True):
        assert np.asarray(a) == pytest.approx(np.asarray(b))


def test_the_arctangent_and_its_slope_are_numpy_s():
    rng = np.random.default_rng(0)
    across, along = np.abs(rng.standard_normal(4000)), rng.standard_normal(4000)
    scale = 10.0 ** rng.integers(-12, 12, (2, 4000))
    across, along = np.float32(across * scale[0]), np.float32(along * scale[1])
    edges = [(0, 1), (0, -1), (1, 0), (1, 1), (1, -1), (2, 1), (1e-30, 1), (1e-30, -1e-30), (0, 0)]
    across, along = (
        np.append(a, np.float32(b)) for a, b in zip((across, along), zip(*edges, strict=True), strict=True)
    )
    found = np.asarray(orientation.arctangent(jnp.asarray(across), jnp.asarray(along)))
    assert found == pytest.approx(np.arctan2(across.astype(float), along.astype(float)), abs=5e-7)
    small = np.float32(rng.uniform(0.1, 2, (2, 50)))
    slopes = jax.vmap(jax.grad(orientation.arctangent, (0, 1)))(*jnp.asarray(small))
    expected = jax.vmap(jax.grad(jnp.arctan2, (0, 1)))(*jnp.asarray(small))
    for slope, other in zip(slopes, expected, strict=True):
        assert np.asarray(slope) == pytest.approx(np.asarray(other), rel=1e-5)
