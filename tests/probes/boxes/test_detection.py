"""Detection as a task: a twin in PyTorch, training to perfection, what may not matter, empty images, ceilings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torchvision import ops

from probes import dense
from probes.boxes import EMPTY
from probes.boxes.assigning import asked
from probes.boxes.detection import Detection
from probes.boxes.geometry import centres
from probes.dense import Hparams, Maps, Program
from probes.errors import InputError
from probes.heads import make_head

GRID, SIZE, CLASSES, ROOM = 6, 48, 3, 5
TASK = Detection(CLASSES, SIZE)
LINEAR = make_head("linear", channels=TASK.channels)
KEY = jax.random.key(0)


def _value(raw, target, task=TASK):
    return task.loss(task.sums(raw, jnp.asarray(target)))


value, slope = jax.jit(_value, static_argnums=2), jax.jit(jax.value_and_grad(_value), static_argnums=2)
sums = jax.jit(TASK.sums)
predict = jax.jit(TASK.predict)
ceiling = jax.jit(TASK.ceiling, static_argnums=1)


def drawn(seed: int = 0, images: int = 4, size: float = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Raw output and objects; the last image shows none, the one before does not exist."""
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((images, GRID, GRID, CLASSES + 4)).astype(np.float32)
    low = rng.uniform(0, 0.6, (images, ROOM, 2))
    high = low + rng.uniform(0.1, 0.4, low.shape)
    labels = rng.integers(0, CLASSES, (images, ROOM, 1))
    target = np.concatenate([low * size, high * size, labels, np.zeros_like(labels)], -1).astype(np.float32)
    target[0, 3:], target[-2:] = -1, -1
    target[-1, 0, 5] = EMPTY
    return raw, target


def twin(raw: torch.Tensor, target: np.ndarray, size: float = SIZE) -> torch.Tensor:
    """The loss with torchvision's pieces, image by image; of images that exist and plain objects."""
    high, wide = raw.shape[1:3]
    y, x = ((torch.arange(side) + 0.5) * size / side for side in (high, wide))
    middle = torch.stack([x.repeat(high), y.repeat_interleave(wide)], -1)
    stride = torch.tensor([size / wide, size / high])
    classes, boxes, positives = torch.zeros(()), torch.zeros(()), 0
    for image, rows in zip(raw.reshape(len(raw), high * wide, -1), target, strict=True):
        objects = torch.from_numpy(rows[rows[:, 4] >= 0])
        if not len(objects) and rows[0, 5] != EMPTY:
            continue
        logits, logs = image[:, :CLASSES] - math.log(99), image[:, CLASSES:]
        reach = logs.clamp(max=8).exp() * stride.repeat(2)
        said = torch.cat([middle - reach[:, :2], middle + reach[:, 2:]], -1)
        to = torch.cat([middle[:, None] - objects[None, :, :2], objects[None, :, 2:4] - middle[:, None]], -1)
        inside = (to > 0).all(-1)
        area = ops.box_area(objects[:, :4])
        wanted = torch.zeros_like(logits)
        (cells,) = torch.nonzero(inside.any(1), as_tuple=True)
        if len(cells):
            which = torch.where(inside[cells], area, torch.inf).argmin(1)
            wanted[cells, objects[which, 4].long()] = 1
            boxes = boxes + ops.generalized_box_iou_loss(said[cells], objects[which, :4], reduction="sum")
        classes = classes + ops.sigmoid_focal_loss(logits, wanted, reduction="sum")
        positives += len(cells)
    return (classes + 2 * boxes) / max(positives, 1)


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_and_its_gradient_are_the_twins(seed):
    raw, target = drawn(seed)
    leaf = torch.tensor(raw, requires_grad=True)
    expected = twin(leaf, target)
    expected.backward()
    found, gradient = slope(raw, target)
    assert float(found) == pytest.approx(expected.item(), rel=1e-5)
    np.testing.assert_allclose(gradient, leaf.grad, atol=2e-6, rtol=1e-4)
    assert (np.asarray(gradient)[-2] == 0).all()
    assert (np.asarray(gradient)[-1, ..., :CLASSES] > 0).all()
    assert (np.asarray(gradient)[-1, ..., CLASSES:] == 0).all()


def test_images_add_up_and_the_unit_of_boxes_does_not_matter():
    raw, target = drawn(1)
    whole = sums(raw, target)
    parts = [sums(raw[part], target[part]) for part in (slice(1), slice(1, 4))]
    for total, *each in zip(whole, *parts, strict=True):
        assert float(total) == pytest.approx(float(sum(each)), rel=1e-5)
    shares = target.copy()
    shares[..., :4] /= SIZE
    for found, expected in zip(Detection(CLASSES, 1).sums(jnp.asarray(raw), shares), whole, strict=True):
        assert float(found) == pytest.approx(float(expected), rel=1e-4)


def test_an_image_without_objects_trains_and_one_that_does_not_exist_does_not():
    raw, target = drawn(2)
    for image in (-1, -2):
        alone = sums(raw[image:][:1], target[image:][:1])
        assert alone.positives == 0
        assert alone.boxes == 0
        assert (alone.classes > 0) == (image == -1)
    assert float(TASK.loss(sums(raw[-1:], target[-1:]))) == float(sums(raw[-1:], target[-1:]).classes)
    empty = np.full_like(target, -1)
    found, gradient = slope(np.full_like(raw, 1e30), empty)
    assert found == 0
    assert (np.asarray(gradient) == 0).all()
    np.testing.assert_array_equal(TASK.exists(target), [True, True, False, True])
    np.testing.assert_array_equal(TASK.valid(target).sum(1), [3, ROOM, 0, 0])


def test_what_is_difficult_or_a_crowd_trains_nothing():
    raw, target = drawn(3)
    plain = target.copy()
    target[0, 4] = 0, 0, SIZE, SIZE, 1, 1
    np.testing.assert_array_equal(value(raw, target), value(raw, plain))
    target[0, 4, 5] = 2
    crowd = sums(raw, target)
    assert crowd.classes < sums(raw, plain).classes
    assert crowd.positives == sums(raw, plain).positives


@pytest.mark.parametrize("scale", [-1e4, 1e4])
def test_large_output_stays_finite(scale):
    raw, target = drawn(4)
    found, gradient = slope(np.full_like(raw, scale), target)
    assert np.isfinite(found)
    assert np.isfinite(gradient).all()
    said = np.asarray(predict(np.full_like(raw, scale)))
    assert np.isfinite(said).all()
    assert (said[..., :4] >= 0).all()
    assert (said[..., :4] <= SIZE).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_short_floats_are_raised(dtype):
    raw, target = drawn(5)
    short = jnp.asarray(raw).astype(dtype)
    assert value(short, target) == value(short.astype(jnp.float32), target)
    assert value(short, target).dtype == jnp.float32
    assert predict(short).dtype == jnp.float32
    np.testing.assert_array_equal(predict(short), predict(short.astype(jnp.float32)))


def test_a_head_of_zeros_says_a_hundredth_everywhere():
    _, target = drawn()
    raw = jnp.zeros((4, GRID, GRID, TASK.channels))
    logits, boxes = TASK.read(raw)
    np.testing.assert_allclose(jax.nn.sigmoid(logits), 0.01, rtol=1e-5)
    np.testing.assert_allclose(boxes[0, 0, 0], [-4, -4, 12, 12])
    assert (np.asarray(predict(raw))[..., 5] == -1).all()
    assert float(value(raw, target)) > 0


def test_a_prior_in_the_task_is_a_bias_in_the_head():
    """The same loss and gradient as of a head whose class biases start at −ln 99."""
    rng = np.random.default_rng(0)
    features, kernel = rng.standard_normal((4, GRID, GRID, 8)), rng.standard_normal((8, TASK.channels)) / 3
    features, kernel, target = features.astype(np.float32), kernel.astype(np.float32), drawn()[1]
    start = np.zeros(TASK.channels, np.float32)

    def ours(kernel, bias):
        return TASK.loss(TASK.sums(features @ kernel + bias, jnp.asarray(target)))

    found, gradients = jax.value_and_grad(ours, argnums=(0, 1))(jnp.asarray(kernel), jnp.asarray(start))
    start[:CLASSES] = -math.log(99)
    weight, bias = torch.tensor(kernel, requires_grad=True), torch.tensor(start, requires_grad=True)
    raw = torch.from_numpy(features) @ weight + bias
    lifted = raw + torch.cat(
        [torch.full((CLASSES,), math.log(99)), torch.zeros(4)]
    )  # twin subtracts it again
    expected = twin(lifted, target)
    expected.backward()
    assert float(found) == pytest.approx(expected.item(), rel=1e-5)
    for gradient, leaf in zip(gradients, (weight, bias), strict=True):
        np.testing.assert_allclose(gradient, leaf.grad, atol=1e-5, rtol=1e-3)


def planted(images: int, seed: int = 0) -> tuple[Maps, np.ndarray]:
    """Up to three boxes of whole cells apart from each other; features tell the class and where the sides lie."""
    rng = np.random.default_rng(seed)
    cell = SIZE / GRID
    features = np.zeros((images, GRID, GRID, CLASSES + 4), np.float32)
    target = np.full((images, ROOM, 6), -1, np.float32)
    target[:, 0, 5] = EMPTY
    for image in range(images):
        for row, corner in enumerate(rng.permutation(4)[: rng.integers(0, 4)]):
            high, wide = rng.integers(1, 4, 2)
            top, left = GRID // 2 * (corner // 2), GRID // 2 * (corner % 2)
            label = rng.integers(0, CLASSES)
            box = np.array([left, top, left + wide, top + high])
            target[image, row] = [*box * cell, label, 0]
            for i, j in np.ndindex(high, wide):
                spot = features[image, top + i, left + j]
                spot[label] = 1
                spot[CLASSES:] = np.log([j + 0.5, i + 0.5, wide - j - 0.5, high - i - 0.5])
    return Maps((features + 0.01 * rng.standard_normal(features.shape).astype(np.float32),)), target


fit = partial(dense.fit, head=LINEAR, task=TASK, key=KEY)


def test_boxes_that_features_tell_are_found():
    maps, target = planted(40)
    found = fit(maps, target, Hparams(0.1, 0.0), epochs=60)
    others, truth = planted(30, seed=1)
    said = dense.predict(found.params, others, None, program=Program(LINEAR, TASK), size=truth.shape[1:3])[0]
    assert said.shape == (30, TASK.max_detections, 6)
    scores = TASK.value(TASK.tally(said, truth))
    assert scores["map_50"] > 0.99
    assert scores["map_50_95"] > 0.9
    best = np.asarray(said[:, 0, 4])
    assert best[(truth[..., 4] >= 0).any(1)].min() > 0.4
    assert best[~(truth[..., 4] >= 0).any(1)].max() < 0.3


def test_a_sweep_is_its_single_fits_compiled_once():
    maps, target = planted(11)
    task = Counting(CLASSES, SIZE)
    rates, decays = np.array([0.05, 0.002]), np.array([0.0, 1e-2])
    swept = fit(maps, target, Hparams(rates, decays), epochs=2, task=task)
    fit(maps, target, Hparams(rates / 2, decays), epochs=3, task=task)
    assert len(Counting.traced) == 1
    for place, (rate, decay) in enumerate(zip(rates, decays, strict=True)):
        alone = fit(maps, target, Hparams(float(rate), float(decay)), epochs=2)
        np.testing.assert_allclose(
            swept.params["out"]["kernel"][place], alone.params["out"]["kernel"][0], atol=1e-4
        )
        np.testing.assert_allclose(swept.train_loss[place], alone.train_loss[0], rtol=1e-4)


@dataclass(frozen=True)
class Counting(Detection):
    """Counts how often its loss is traced."""

    traced = []  # noqa: RUF012 - shared on purpose

    def sums(self, raw, target, stride=1):
        self.traced.append(1)
        return super().sums(raw, target, stride)


def test_a_short_batch_stays_short_and_void_is_found():
    maps, target = planted(5)
    short = fit(maps, target, Hparams(0.01, 0.0), batch_size=8, epochs=2)
    exact = fit(maps, target, Hparams(0.01, 0.0), batch_size=5, epochs=2)
    np.testing.assert_allclose(short.params["out"]["kernel"], exact.params["out"]["kernel"], atol=1e-5)
    assert dense._void(TASK, jnp.asarray(target)) == -1


def test_settings_side_by_side():
    raws, target = jnp.asarray(np.stack([drawn(seed)[0] for seed in range(3)])), drawn()[1]
    together, gradients = jax.vmap(lambda raw: slope(raw, target))(raws)
    for raw, loss, gradient in zip(raws, together, gradients, strict=True):
        assert float(loss) == pytest.approx(float(value(raw, target)), rel=1e-5)
        np.testing.assert_allclose(gradient, slope(raw, target)[1], atol=1e-6)


def test_the_ceiling_says_each_object_that_has_a_cell():
    target = np.full((3, ROOM, 6), -1, np.float32)
    target[0, 0] = 0, 0, 16, 16, 0, 0
    target[0, 1] = 20.5, 20.5, 23.5, 23.5, 1, 0  # between centres
    target[0, 2] = 24, 24, 40, 40, 2, 0
    target[0, 3] = 24, 24, 40, 41, 2, 0  # hides behind the one before
    target[0, 4] = 0, 24, 16, 60, 1, 0
    target[1, 0, 5] = EMPTY
    target[2, 0], target[2, 1] = [0, 0, 48, 48, 0, 2], [0, 0, 9, 9, 1, 1]
    found = np.asarray(ceiling(target, (GRID, GRID)))
    assert found.shape == (3, TASK.max_detections, 6)
    expected = [[0, 0, 16, 16, 1, 0], [24, 24, 40, 40, 1, 2], [0, 24, 16, 48, 1, 1]]
    np.testing.assert_allclose(found[0, :3], expected)
    assert (found[0, 3:, 5] == -1).all()
    assert (found[1:, :, 5] == -1).all()
    fine = np.asarray(ceiling(target, (48, 48)))
    assert (fine[0, :, 5] >= 0).sum() == 4
    every = np.asarray(jax.jit(replace(TASK, nms_iou=1.0).ceiling, static_argnums=1)(target, (48, 48)))
    assert (every[0, :, 5] >= 0).sum() == 5


def test_the_ceiling_is_what_a_head_says_that_says_what_is_asked():
    """Of objects apart from each other, to the order of rows."""
    _, target = planted(20)
    wanted = asked(jnp.asarray(target), (GRID, GRID), SIZE, CLASSES)
    middle, box = centres((GRID, GRID), SIZE), np.asarray(wanted.box)
    reach = np.concatenate([middle - box[..., :2], box[..., 2:] - middle], -1) / (SIZE / GRID)
    raw = np.concatenate([np.where(np.eye(CLASSES, dtype=bool)[wanted.label], 100, -100), np.log(reach)], -1)
    raw[~np.asarray(wanted.positive), :CLASSES] = -100
    said = np.asarray(predict(jnp.asarray(raw, jnp.float32)))
    best = np.asarray(ceiling(target, (GRID, GRID)))
    for found, expected in zip(said, best, strict=True):
        found, expected = (
            {tuple(np.round(row, 2)) for row in rows if row[5] >= 0} for rows in (found, expected)
        )
        assert found == expected
    assert TASK.value(TASK.tally(best, target))["map_50_95"] == pytest.approx(1)


def test_crowded_cells_keep_the_smallest_and_the_rest_is_lost_to_the_ceiling():
    target = np.full((1, 30, 6), -1, np.float32)
    for row in range(30):
        target[0, row] = [3 - row / 20, 3 - row / 20, 5 + row / 20, 5 + row / 20, row % CLASSES, 0]
    raw = np.random.default_rng(0).standard_normal((1, GRID, GRID, TASK.channels)).astype(np.float32)
    assert sums(raw, target).positives == 1
    found = np.asarray(ceiling(target, (GRID, GRID)))[0]
    np.testing.assert_allclose(found[0], [3, 3, 5, 5, 1, 0])
    assert (found[1:, 5] == -1).all()


def test_predictions_at_any_size_are_the_same_and_images_do_not_meet():
    raw = drawn(6)[0] * 3
    whole = np.asarray(predict(raw))
    np.testing.assert_array_equal(TASK.predict(jnp.asarray(raw), (7, 9)), whole)
    for image in range(len(raw)):
        np.testing.assert_array_equal(predict(raw[image : image + 1])[0], whole[image])
    assert (np.diff(whole[..., 4], axis=1) <= 0).all()


def test_what_does_not_go_together_is_refused():
    with pytest.raises(InputError, match="gave 9 channels a cell; 3 classes and a box want 7"):
        TASK.predict(jnp.zeros((1, 2, 2, 9)))
    with pytest.raises(InputError, match="num_classes is 0"):
        Detection(0, 1)
    with pytest.raises(InputError, match=r"nms_iou is 1\.5"):
        Detection(2, 1, nms_iou=1.5)
    with pytest.raises(InputError, match="max_detections is 0"):
        Detection(2, 1, max_detections=0)
