"""RoIAlign beside torchvision's, why it may follow the convolution, and masks drawn into pictures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision import ops

from probes.boxes.masks import SIDE, paste, roi_align

align = jax.jit(roi_align, static_argnums=2)
draw = jax.jit(paste, static_argnums=2)


def drawn(seed: int = 0, side: float = 80.0, over: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-over, side + over, (3, 7, 2, 2))
    boxes = np.concatenate([corners.min(2), corners.max(2)], -1)
    return rng.standard_normal((3, 10, 10)).astype(np.float32), boxes.astype(np.float32)


def by_torch(maps: np.ndarray, boxes: np.ndarray, side: float) -> np.ndarray:
    """(b, M, 14, 14, d) of maps (b, h, w, d)."""
    found = ops.roi_align(
        torch.from_numpy(np.ascontiguousarray(maps.transpose(0, 3, 1, 2))),
        list(torch.from_numpy(boxes)),
        output_size=SIDE,
        spatial_scale=maps.shape[1] / side,
        sampling_ratio=2,
        aligned=True,
    )
    return found.numpy().transpose(0, 2, 3, 1).reshape(*boxes.shape[:2], SIDE, SIDE, -1)


@pytest.mark.parametrize("over", [0.0, 25.0])
def test_torchvision_agrees_also_beyond_the_frame(over):
    maps, boxes = drawn(over=over)
    boxes[0, 0, 2:] = boxes[0, 0, :2]
    boxes[0, 1] = 0, 0, 80, 80
    np.testing.assert_allclose(
        align(maps, boxes, 80.0), by_torch(maps[..., None], boxes, 80.0)[..., 0], atol=2e-5
    )


def test_a_convolution_of_aligned_features_is_aligned_convolved_features():
    rng = np.random.default_rng(3)
    features, kernel = rng.standard_normal((3, 10, 10, 5)), rng.standard_normal(5)
    features, kernel, boxes = features.astype(np.float32), kernel.astype(np.float32), drawn()[1]
    after = by_torch(features, boxes, 80.0) @ kernel + 0.7
    before = align(features @ kernel + np.float32(0.7), boxes, 80.0)
    np.testing.assert_allclose(before, after, atol=1e-4)


def test_a_gradient_is_torchs():
    maps, boxes = drawn(1)
    leaf = torch.tensor(maps[:, None], requires_grad=True)
    aligned = ops.roi_align(leaf, list(torch.from_numpy(boxes)), SIDE, 10 / 80, 2, True)
    (aligned**2).sum().backward()
    found = jax.grad(lambda maps: (roi_align(maps, jnp.asarray(boxes), 80.0) ** 2).sum())(jnp.asarray(maps))
    np.testing.assert_allclose(found, leaf.grad[:, 0], atol=1e-2, rtol=1e-3)


def test_cells_may_be_oblong():
    """Twice as many columns, each value twice, is the same picture where it is constant across."""
    maps, boxes = drawn(2)
    across = np.broadcast_to(maps[:, :, :1], maps.shape)
    wide = np.broadcast_to(maps[:, :, :1], (3, 10, 20))
    np.testing.assert_allclose(align(wide, boxes, 80.0), align(across, boxes, 80.0), atol=1e-5)


def slow(mask: np.ndarray, box: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Pixel by pixel, in 64 bit."""
    x0, y0, x1, y1 = box.astype(np.float64)
    found = np.zeros(size, bool)
    for i, j in np.ndindex(*size):
        y, x = i + 0.5, j + 0.5
        if not (x0 <= x < x1 and y0 <= y < y1):
            continue
        v, u = ((at - low) / (high - low) * SIDE - 0.5 for at, low, high in ((y, y0, y1), (x, x0, x1)))
        v, u = (min(max(each, 0), SIDE - 1) for each in (v, u))
        top, left = min(int(v), SIDE - 2), min(int(u), SIDE - 2)
        square = mask[top : top + 2, left : left + 2].astype(np.float64)
        found[i, j] = (
            np.array([1 - (v - top), v - top]) @ square @ np.array([1 - (u - left), u - left]) >= 0.5
        )
    return found


@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_a_mask_is_drawn_as_pixel_by_pixel(seed):
    rng = np.random.default_rng(seed)
    mask, corners = rng.random((SIDE, SIDE)).astype(np.float32), rng.uniform(-3, 35, (2, 2))
    box = np.concatenate([corners.min(0), corners.max(0)]).astype(np.float32)
    for size in ((32, 32), (20, 31)):
        np.testing.assert_array_equal(draw(mask, box, size), slow(mask, box, size))


def test_a_full_mask_fills_its_box_and_an_empty_box_shows_nothing():
    full = np.ones((SIDE, SIDE), np.float32)
    expected = np.zeros((16, 16), bool)
    expected[2:9, 3:5] = True
    np.testing.assert_array_equal(draw(full, np.array([3, 2, 5, 9], np.float32), 16), expected)
    assert not np.asarray(draw(full, np.array([3, 2, 3, 2], np.float32), 16)).any()


def test_masks_side_by_side():
    rng = np.random.default_rng(0)
    masks = rng.random((5, SIDE, SIDE)).astype(np.float32)
    boxes = drawn(5, side=16.0)[1][0, :5]
    together = jax.vmap(lambda mask, box: paste(mask, box, 16))(masks, boxes)
    for found, mask, box in zip(together, masks, boxes, strict=True):
        np.testing.assert_array_equal(found, draw(mask, box, 16))
