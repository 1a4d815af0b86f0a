"""Boxes as numbers: against torchvision, what moves and grows with them, and boxes of nothing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision import ops

from probes.boxes import geometry

iou, giou = jax.jit(geometry.iou), jax.jit(geometry.giou)
around = jax.jit(geometry.around, static_argnums=1)


def drawn(seed: int, count: int = 40, side: float = 100.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, side, (count, 2, 2))
    return np.concatenate([corners.min(1), corners.max(1) + 0.5], -1).astype(np.float32)


def test_torchvision_agrees():
    ours, others = drawn(0), drawn(1, 30)
    pairs = jnp.asarray(ours)[:, None], jnp.asarray(others)[None]
    for own, theirs in ((iou, ops.box_iou), (giou, ops.generalized_box_iou)):
        expected = theirs(torch.from_numpy(ours), torch.from_numpy(others)).numpy()
        np.testing.assert_allclose(own(*pairs), expected, atol=1e-6)
    np.testing.assert_allclose(geometry.area(jnp.asarray(ours)), ops.box_area(torch.from_numpy(ours)))


@given(st.integers(0, 10**6), st.floats(0.01, 1000), st.floats(-50, 50))
@settings(max_examples=25, deadline=None)
def test_overlaps_are_symmetric_bounded_and_free_of_unit_and_place(seed, scale, shift):
    ours, others = jnp.asarray(drawn(seed)), jnp.asarray(drawn(seed + 1))
    for measure, least in ((iou, 0), (giou, -1)):
        found = np.asarray(measure(ours, others))
        assert (found >= least).all()
        assert (found <= 1).all()
        np.testing.assert_array_equal(found, measure(others, ours))
        moved = measure((ours + shift) * scale, (others + shift) * scale)
        np.testing.assert_allclose(moved, found, atol=1e-3)
        np.testing.assert_allclose(measure(ours, ours), 1, atol=1e-6)
    assert (np.asarray(giou(ours, others)) <= np.asarray(iou(ours, others)) + 1e-6).all()


def test_boxes_of_nothing_are_numbers():
    point, box = jnp.array([3.0, 3, 3, 3]), jnp.array([0.0, 0, 4, 4])
    for one, other in ((point, box), (box, point), (point, point), (point, point + 1)):
        for measure in (iou, giou):
            value, slope = jax.value_and_grad(measure)(one, other)
            assert np.isfinite(value)
            assert np.isfinite(slope).all()
        assert iou(one, other) == 0


def test_cells_tell_boxes_around_their_centres():
    """A grid of 2 × 4 cells, 50 pixels high and 25 wide each."""
    raw = jnp.zeros((1, 2, 4, 4)).at[0, 1, 2].set(jnp.log(jnp.array([2.0, 1.0, 0.5, 0.25])))
    boxes = np.asarray(around(raw, 100.0))
    np.testing.assert_allclose(boxes[0, 0, 0], [12.5 - 25, 25 - 50, 12.5 + 25, 25 + 50])
    np.testing.assert_allclose(boxes[0, 1, 2], [62.5 - 50, 75 - 50, 62.5 + 12.5, 75 + 12.5], rtol=1e-6)
    far = np.asarray(around(jnp.full((1, 1, 1, 4), 1e30), 1.0))
    np.testing.assert_allclose(far[0, 0, 0, 2], 0.5 + np.exp(8), rtol=1e-6)


@pytest.mark.parametrize("size", [1, 224])
def test_the_unit_does_not_matter(size):
    raw = jnp.asarray(np.random.default_rng(0).standard_normal((2, 3, 5, 4)).astype(np.float32))
    np.testing.assert_allclose(
        around(raw, float(size)), np.asarray(around(raw, 1.0)) * size, rtol=1e-5, atol=1e-5
    )
