"""Pearson's r, rmse and mae of maps: numpy in 64 bit, constants, offsets, void pixels, sums."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.metrics import correlation


def drawn(seed: int, count: int = 4, side: int = 11) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = rng.exponential(1, (count, side, side)).astype(np.float32)
    prediction = (target * rng.normal(0, 1) + rng.normal(0, 1, target.shape)).astype(np.float32)
    return prediction, target, rng.random(target.shape) < 0.7


def r(prediction: np.ndarray, target: np.ndarray, valid: np.ndarray) -> np.ndarray:
    return correlation.correlation(correlation.tally(prediction, target, valid))


def reference(prediction: np.ndarray, target: np.ndarray, valid: np.ndarray) -> list[float]:
    rows = zip(prediction.astype(float), target.astype(float), valid, strict=True)
    return [np.corrcoef(said[known], true[known])[0, 1] for said, true, known in rows]


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_numpy_agrees(seed):
    prediction, target, valid = drawn(seed)
    tally = correlation.tally(prediction, target, valid)
    assert correlation.correlation(tally) == pytest.approx(reference(prediction, target, valid), abs=1e-5)
    found = correlation.errors(tally)
    for row, known in enumerate(valid):
        error = (prediction[row].astype(float) - target[row])[known]
        assert found["rmse"][row] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-5)
        assert found["mae"][row] == pytest.approx(np.abs(error).mean(), rel=1e-5)


@given(st.integers(0, 10**6), st.sampled_from([1e-25, 1e-8, 1.0, 1e8, 1e25]), st.sampled_from([0.0, 30.0]))
@settings(max_examples=20, deadline=None)
def test_scale_and_offset_do_not_matter(seed, scale, offset):
    prediction, target, valid = drawn(seed)
    moved = ((prediction + offset) * scale).astype(np.float32)
    before = reference(prediction, target, valid)
    assert r(moved, target, valid) == pytest.approx(before, abs=1e-4)
    assert r(-moved, target, valid) == pytest.approx([-each for each in before], abs=1e-4)
    assert r(target, moved, valid) == pytest.approx(before, abs=1e-4)


def test_a_small_spread_on_a_large_offset():
    """Sums of squares in float32 would have no digit left."""
    rng = np.random.default_rng(0)
    target = rng.normal(0, 1, (2, 224, 224)).astype(np.float32)
    prediction = (5000 + target + rng.normal(0, 1, target.shape)).astype(np.float32)
    valid = np.ones(target.shape, bool)
    assert r(prediction, target, valid) == pytest.approx(reference(prediction, target, valid), abs=1e-5)


@pytest.mark.parametrize("constant", [0.0, 0.1, -3e7, 1e-30])
def test_a_constant_map_has_no_r_but_errors(constant):
    _, target, valid = drawn(0)
    flat = np.full(target.shape, constant, np.float32)
    flat[:, 0, 0] = np.nextafter(flat[:, 0, 0], np.float32(np.inf))  # as rounding leaves it
    if constant:
        assert np.isnan(r(flat, target, valid)).all()
    assert np.isnan(r(np.full_like(flat, constant), target, valid)).all()
    assert np.isnan(r(target, np.full_like(flat, constant), valid)).all()
    assert np.isfinite(correlation.errors(correlation.tally(flat, target, valid))["rmse"]).all()


def test_degenerate_images():
    prediction, target, valid = drawn(0, count=4)
    valid[0] = False
    valid[1] = False
    valid[1, 3, 3] = True
    valid[2] = False
    valid[2, 2, 2:4] = True
    tally = correlation.tally(prediction, target, valid)
    found = correlation.correlation(tally)
    assert np.isnan(found[:2]).all()
    assert abs(found[2]) == pytest.approx(1)  # two points lie on a line
    errors = correlation.errors(tally)
    assert np.isnan([errors["rmse"][0], errors["mae"][0]]).all()
    assert errors["rmse"][1] == pytest.approx(abs(prediction[1, 3, 3] - target[1, 3, 3]))
    assert not any(np.isnan(np.asarray(leaf)).any() for leaf in tally)


def test_what_void_pixels_hold_does_not_matter():
    prediction, target, valid = drawn(3)
    for junk in (np.nan, np.inf, -1.0):
        changed = np.where(valid, target, np.float32(junk))
        assert all(
            (a == b).all()
            for a, b in zip(
                correlation.tally(prediction, target, valid),
                correlation.tally(prediction, changed, valid),
                strict=True,
            )
        )


def test_pooled_errors_and_images_by_the_part():
    """One bad pixel alone in its image weighs as much as the other image's eight, or a ninth."""
    prediction, target = np.zeros((2, 2, 3, 3), np.float32)
    valid = np.ones((2, 3, 3), bool)
    valid[0], valid[1, 0, 0] = False, False
    valid[0, 1, 1], prediction[0, 1, 1] = True, 1
    tally = correlation.tally(prediction, target, valid)
    assert correlation.errors(tally)["rmse"].mean() == pytest.approx(0.5)
    total = jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally)
    assert correlation.errors(total)["rmse"] == pytest.approx(1 / 3)
    weights = np.array([[1, 1], [0, 0], [2, 0]])
    many = correlation.errors(correlation.Tally(*(weights @ np.asarray(leaf) for leaf in tally)))
    assert many["rmse"] == pytest.approx([1 / 3, np.nan, 1], nan_ok=True)
    assert many["mae"] == pytest.approx([1 / 9, np.nan, 1], nan_ok=True)


def test_one_map_for_all_rows():
    _, target, valid = drawn(4)
    row = np.linspace(0, 1, 11, dtype=np.float32)[None, :, None]
    spread = np.broadcast_to(row, target.shape)
    assert r(row, target, valid) == pytest.approx(reference(spread, target, valid), abs=1e-5)


@pytest.mark.parametrize("spike", [1e6, -1e6])
def test_one_pixel_far_off(spike):
    """Its image's range is nothing but that pixel, and all the others are as good as one."""
    rng = np.random.default_rng(0)
    target = rng.normal(0, 1, (1, 224, 224)).astype(np.float32)
    prediction = (target + rng.normal(0, 1, target.shape)).astype(np.float32)
    prediction[0, 100, 7] = spike
    target[0, 100, 7] = 50
    valid = np.ones(target.shape, bool)
    assert r(prediction, target, valid) == pytest.approx(reference(prediction, target, valid), abs=1e-4)
