"""Losses and their gradients beside torchvision's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torchvision.ops import generalized_box_iou_loss, sigmoid_focal_loss

from probes.boxes.losses import apart, focal

slope_of_focal = jax.jit(jax.value_and_grad(lambda logits, positive: focal(logits, positive).sum()))
slope_of_apart = jax.jit(jax.value_and_grad(lambda said, true: apart(said, true).sum()))


def test_focal_is_torchvisions():
    """Torchvision's in 64 bit, since in 32 its 1 − p loses the small ones."""
    rng = np.random.default_rng(0)
    logits = (rng.standard_normal((50, 20)) * 5).astype(np.float32)
    positive = rng.random(logits.shape) < 0.2
    leaf = torch.tensor(logits.astype(np.float64), requires_grad=True)
    expected = sigmoid_focal_loss(leaf, torch.tensor(positive).double(), alpha=0.25, gamma=2)
    np.testing.assert_allclose(
        focal(jnp.asarray(logits), jnp.asarray(positive)), expected.detach(), rtol=2e-5
    )
    expected.sum().backward()
    found = slope_of_focal(logits, positive)[1]
    np.testing.assert_allclose(found, leaf.grad, rtol=1e-5, atol=1e-9)


def test_focal_stays_finite_where_logits_are_large():
    logits = jnp.array([-1e4, -200.0, 0.0, 200.0, 1e4])
    for positive in (True, False):
        value, slope = slope_of_focal(logits, jnp.full(5, positive))
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
    np.testing.assert_allclose(focal(logits, jnp.full(5, True))[jnp.array([0, 4])], [2500, 0])


def test_the_distance_of_boxes_is_torchvisions():
    rng = np.random.default_rng(1)
    low = rng.uniform(0, 50, (2, 200, 2))
    said, true = np.concatenate([low, low + rng.uniform(1, 60, low.shape)], -1).astype(np.float32)
    leaf = torch.tensor(said, requires_grad=True)
    expected = generalized_box_iou_loss(leaf, torch.tensor(true))
    np.testing.assert_allclose(apart(jnp.asarray(said), jnp.asarray(true)), expected.detach(), atol=1e-5)
    expected.sum().backward()
    np.testing.assert_allclose(slope_of_apart(said, true)[1], leaf.grad, atol=1e-5)


def test_boxes_apart_know_which_way_to_go():
    said, true = jnp.array([[0.0, 0, 1, 1]]), jnp.array([[5.0, 0, 6, 1]])
    slope = slope_of_apart(said, true)[1]
    assert slope[0, 2] < 0
    same = slope_of_apart(jnp.array([[2.0, 2, 2, 2]]), true)
    assert np.isfinite(same[1]).all()
