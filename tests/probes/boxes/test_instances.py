"""Instance segmentation as a task: the loss of masks by hand, training to perfection, what may not matter."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torchvision import ops

from probes import dense
from probes.boxes import EMPTY
from probes.boxes.detection import Detection
from probes.boxes.instances import BOX, ROW, Instances
from probes.boxes.masks import SIDE, paste
from probes.dense import Hparams, Maps, Program
from probes.errors import InputError
from probes.heads import make_head

GRID, SIZE, CLASSES, ROOM = 6, 48, 2, 4
BOXES = Detection(CLASSES, SIZE, max_detections=10)
TASK = Instances(BOXES)


def _value(raw, target):
    return TASK.loss(TASK.sums(raw, jnp.asarray(target)))


value, slope = jax.jit(_value), jax.jit(jax.value_and_grad(_value))
sums, predict = jax.jit(TASK.sums), jax.jit(TASK.predict)
ceiling = jax.jit(TASK.ceiling, static_argnums=1)


def drawn(seed: int = 0, images: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((images, GRID, GRID, TASK.channels)).astype(np.float32)
    low = rng.uniform(0, 0.6, (images, ROOM, 2)) * SIZE
    boxes = np.concatenate([low, low + rng.uniform(0.1, 0.4, low.shape) * SIZE], -1)
    labels, masks = rng.integers(0, CLASSES, (images, ROOM, 1)), rng.random((images, ROOM, SIDE * SIDE))
    target = np.concatenate([boxes, labels, 0 * labels, masks], -1).astype(np.float32)
    target[0, 0, BOX:] = -1  # nobody said
    target[0, 1, BOX : BOX + 50] = -1
    target[0, 2, 5], target[0, 3, 5] = 1, 2
    target[1, 2:] = -1
    target[2], target[2, 0, 5] = -1, EMPTY
    return raw, target


def test_the_loss_of_masks_is_pytorchs():
    raw, target = drawn()
    leaf = torch.tensor(raw[..., -1][:, None], requires_grad=True)
    said = ops.roi_align(leaf, list(torch.from_numpy(target[..., :4])), SIDE, GRID / SIZE, 2, True)
    losses = []
    for place in ((0, 1), (1, 0), (1, 1)):
        true = torch.from_numpy(target[place][BOX:])
        logits = said.reshape(3, ROOM, -1)[place][true >= 0]
        wanted = (true[true >= 0] >= 0.5).float()
        losses.append(torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted))
    torch.stack(losses).mean().backward()
    found = sums(raw, target)
    assert found.objects == 3
    assert float(found.masks) == pytest.approx(sum(losses).item(), rel=1e-5)
    total, gradient = slope(raw, target)
    alone, own = jax.value_and_grad(lambda raw: BOXES.loss(BOXES.sums(raw, target)))(
        jnp.asarray(raw[..., :-1])
    )
    assert float(total) == pytest.approx(float(alone) + sum(losses).item() / 3, rel=1e-5)
    np.testing.assert_allclose(gradient[..., -1], leaf.grad[:, 0], atol=1e-6)
    np.testing.assert_allclose(gradient[..., :-1], own, atol=1e-6)


def test_images_without_masks_or_objects_are_no_trouble():
    raw, target = drawn()
    target[..., BOX:] = -1
    found, gradient = slope(raw, target)
    assert np.isfinite(found)
    assert (np.asarray(gradient)[..., -1] == 0).all()
    found, gradient = slope(raw, np.full_like(target, -1))
    assert found == 0
    assert (np.asarray(gradient) == 0).all()
    np.testing.assert_array_equal(TASK.exists(target), True)
    assert dense._void(TASK, jnp.asarray(target)) == -1


def test_boxes_are_those_of_detection_and_masks_lie_in_them():
    raw, _ = drawn(1)
    raw = raw * 3
    found = np.asarray(predict(raw))
    np.testing.assert_array_equal(found[..., :BOX], BOXES.predict(jnp.asarray(raw[..., :-1])))
    logits = ops.roi_align(
        torch.tensor(raw[..., -1][:, None]), list(torch.tensor(found[..., :4])), SIDE, GRID / SIZE, 2, True
    )
    there = found[..., 5] >= 0
    expected = torch.sigmoid(logits).numpy().reshape(*there.shape, -1)
    np.testing.assert_allclose(found[..., BOX:][there], expected[there], atol=1e-5)
    assert (found[..., BOX:][~there] == 0).all()
    nothing = np.asarray(predict(np.zeros_like(raw)))
    assert (nothing[..., 5] == -1).all()
    assert (nothing[..., BOX:] == 0).all()


def planted(images: int, seed: int = 0) -> tuple[Maps, np.ndarray]:
    """An object of 4 × 4 cells, whose left or upper half alone is object; features tell all of it."""
    rng = np.random.default_rng(seed)
    features = np.zeros((images, GRID, GRID, TASK.channels), np.float32)
    target = np.full((images, ROOM, ROW), -1, np.float32)
    for image in range(images):
        top, left = rng.integers(0, 3, 2)
        label = rng.integers(0, CLASSES)
        whole = np.zeros((4, 4))
        whole[(slice(None), slice(2)) if rng.random() < 0.5 else slice(2)] = 1
        mask = whole.repeat(SIDE, 0).repeat(SIDE, 1).reshape(SIDE, 4, SIDE, 4).mean((1, 3))
        box = np.array([left, top, left + 4, top + 4]) * SIZE / GRID
        target[image, 0] = np.concatenate([box, [label, 0], mask.ravel()])
        for i, j in np.ndindex(4, 4):
            spot = features[image, top + i, left + j]
            spot[label] = 1
            spot[CLASSES:-1] = np.log([j + 0.5, i + 0.5, 3.5 - j, 3.5 - i])
            spot[-1] = 2 * whole[i, j] - 1
    return Maps((features + 0.01 * rng.standard_normal(features.shape).astype(np.float32),)), target


def test_masks_that_features_tell_are_found():
    head = make_head("linear", channels=TASK.channels)
    maps, target = planted(32)
    found = dense.fit(maps, target, Hparams(0.1, 0.0), head=head, task=TASK, key=jax.random.key(0), epochs=60)
    others, truth = planted(16, seed=1)
    said = dense.predict(found.params, others, None, program=Program(head, TASK), size=(ROOM, ROW))[0]
    scores = BOXES.value(BOXES.tally(said[..., :BOX], truth[..., :BOX]))
    assert scores["map_50"] > 0.99
    draw = jax.vmap(lambda row: paste(row[BOX:].reshape(SIDE, SIDE), row[:4], SIZE))
    ours, theirs = np.asarray(draw(said[:, 0])), np.asarray(draw(truth[:, 0]))
    overlap = (ours & theirs).sum((1, 2)) / (ours | theirs).sum((1, 2))
    assert overlap.min() > 0.8


def test_the_ceiling_has_true_masks():
    _, target = drawn(2)
    found = np.asarray(ceiling(target, (GRID, GRID)))
    np.testing.assert_array_equal(found[..., :BOX], BOXES.ceiling(target, (GRID, GRID)))
    for image in range(len(target)):
        for row in found[image][found[image, :, 5] >= 0]:
            (place,) = np.nonzero((target[image, :, :2] == row[:2]).all(-1))
            np.testing.assert_array_equal(row[BOX:], np.maximum(target[image, place[0], BOX:], 0))
    assert (found[2] == np.r_[np.zeros(5), -1, np.zeros(ROW - BOX)]).all()


def test_settings_side_by_side():
    raws, target = jnp.asarray(np.stack([drawn(seed)[0] for seed in range(3)])), drawn()[1]
    together = jax.vmap(lambda raw: value(raw, target))(raws)
    for raw, loss in zip(raws, together, strict=True):
        assert float(loss) == pytest.approx(float(value(raw, target)), rel=1e-5)


def test_tasks_are_equal_by_value_and_the_wrong_head_is_refused():
    assert Instances(Detection(2, 8)) == Instances(Detection(2, 8))
    assert hash(Instances(Detection(2, 8))) == hash(Instances(Detection(2, 8)))
    with pytest.raises(InputError, match="gave 6 channels a cell; 2 classes, a box and a mask want 7"):
        TASK.predict(jnp.zeros((1, 2, 2, 6)))
