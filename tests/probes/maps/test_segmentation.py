"""The segmentation task against PyTorch's cross-entropy, whole and on a lattice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from probes import resizing
from probes.maps.segmentation import Segmentation
from probes.metrics.segmentation import VOID

CLASSES, SIDE = 5, 28


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((3, 7, 6, CLASSES)).astype(np.float32) * 3
    target = rng.integers(0, CLASSES, (3, SIDE, SIDE)).astype(np.uint8)
    target[rng.random(target.shape) < 0.2] = VOID
    return raw, target


def by_torch(raw, target, stride):
    """Loss and gradient by interpolation and cross-entropy at full resolution."""
    grids = torch.tensor(np.moveaxis(raw, -1, 1).copy(), requires_grad=True)
    logits = torch.nn.functional.interpolate(grids, (SIDE, SIDE), mode="bilinear", align_corners=False)
    places = resizing.lattice(SIDE, stride)
    labels = torch.from_numpy(target.astype(np.int64))[:, places][:, :, places]
    loss = torch.nn.functional.cross_entropy(logits[:, :, places][..., places], labels, ignore_index=VOID)
    loss.backward()
    return loss.item(), np.moveaxis(grids.grad.numpy(), 1, -1)


@pytest.mark.parametrize("stride", [1, 4])
def test_loss_and_gradient_are_those_of_pytorch(drawn, stride):
    raw, target = drawn
    task = Segmentation(CLASSES)

    def loss(raw):
        return task.loss(task.sums(raw, target, stride))

    value, gradient = jax.value_and_grad(loss)(jnp.asarray(raw))
    expected, slope = by_torch(raw, target, stride)
    assert float(value) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-8)


def test_sums_of_parts_add_up_and_settings_stack(drawn):
    raw, target = drawn
    task = Segmentation(CLASSES)
    whole = task.sums(raw, target)
    parts = [task.sums(raw[rows], target[rows]) for rows in (slice(0, 1), slice(1, 3))]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0), rtol=1e-5)

    def gradient(raw):
        return jax.grad(lambda each: task.sums(each, target).loss)(raw)

    both = jnp.stack([raw, raw[::-1] / 2])
    stacked = jax.vmap(gradient)(both)
    for one, each in zip(stacked, both, strict=True):
        np.testing.assert_allclose(one, gradient(each), rtol=1e-4, atol=1e-5)


def test_nothing_valid_has_a_loss_of_zero_and_no_slope(drawn):
    raw, target = drawn
    task, void = Segmentation(CLASSES), np.full_like(target, VOID)
    value, gradient = jax.value_and_grad(lambda each: task.loss(task.sums(each, void)))(jnp.asarray(raw))
    assert float(value) == 0
    assert not np.asarray(gradient).any()


def test_a_prediction_is_the_largest_logit_at_any_size(drawn):
    raw, _ = drawn
    predicted = Segmentation(CLASSES).predict(jnp.asarray(raw), (20, 33))
    expected = np.asarray(resizing.upsample(jnp.asarray(raw), (20, 33))).argmax(1)
    np.testing.assert_array_equal(predicted, expected)


def test_the_ceiling_of_a_map_made_of_cells_is_nearly_perfect():
    rng = np.random.default_rng(1)
    cells = rng.integers(0, CLASSES, (2, 4, 4)).astype(np.uint8)
    target = np.repeat(np.repeat(cells, 7, 1), 7, 2)
    task = Segmentation(CLASSES)
    fine = task.pooled(task.tally(task.ceiling(target, (28, 28)), target))["miou"]
    coarse = task.pooled(task.tally(task.ceiling(target, (2, 2)), target))["miou"]
    assert (fine == 1).all()
    assert (coarse < 0.9).all()


def test_evidence_gives_the_most_frequent_class_of_each_place():
    target = np.array([[[0, 1], [2, VOID]], [[0, 1], [3, VOID]], [[1, 1], [3, 4]]], np.uint8)
    task = Segmentation(CLASSES)
    evidence = task.evidence(jnp.asarray(target))
    np.testing.assert_array_equal(task.guess(evidence), [[0, 1], [3, 4]])
    everywhere = jnp.sum(evidence, axis=(0, 1), keepdims=True)
    np.testing.assert_array_equal(task.guess(everywhere), [[1]])


def test_shifted_and_transposed_targets_score_less():
    rng = np.random.default_rng(2)
    cells = rng.integers(0, CLASSES, (1, 7, 7)).astype(np.uint8)
    target = np.repeat(np.repeat(cells, 4, 1), 4, 2)
    task = Segmentation(CLASSES)
    raw = jax.nn.one_hot(cells, CLASSES) * 10
    predicted = task.predict(raw, (SIDE, SIDE))

    def miou(target):
        return float(task.pooled(task.tally(predicted, target))["miou"][0])

    assert miou(target) > 0.8
    assert miou(np.roll(target, 8, 2)) < miou(target) - 0.3
    assert miou(target.transpose(0, 2, 1)) < miou(target) - 0.3


def test_scene_parsing_is_the_mean_of_two_numbers(drawn):
    raw, target = drawn
    task = Segmentation(CLASSES, scene_parsing=True)
    values = task.pooled(task.tally(task.predict(raw, (SIDE, SIDE)), target))
    np.testing.assert_allclose(values["scene_parsing"], (values["pixel_acc"] + values["miou"]) / 2)
