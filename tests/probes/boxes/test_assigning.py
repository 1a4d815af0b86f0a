"""What is asked of cells: against a loop, and the cases on the edge."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probes.boxes import EMPTY
from probes.boxes.assigning import asked, exists

CLASSES = 3
look = jax.jit(partial(asked, num_classes=CLASSES), static_argnums=(1, 2))


def truth(*rows, room: int = 6) -> jnp.ndarray:
    """One image."""
    padded = np.full((room, 6), -1, np.float32)
    padded[: len(rows)] = np.array(rows, np.float32).reshape(-1, 6)
    return jnp.asarray(padded[None])


def drawn(seed: int = 0, images: int = 4, room: int = 9, size: float = 60.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    corners = rng.integers(0, int(size) + 1, (images, room, 2, 2))
    target = np.concatenate([corners.min(2), corners.max(2)], -1)
    labels, flags = rng.integers(0, CLASSES, (images, room, 1)), rng.choice([0, 0, 1, 2], (images, room, 1))
    target = np.concatenate([target, labels, flags], -1).astype(np.float32)
    target[0, 4:], target[1], target[2] = -1, -1, -1
    target[2, 0, 5] = EMPTY
    return target


def slow(target: np.ndarray, grid: tuple[int, int], size: float):
    """Cell by cell."""
    owner = np.full((len(target), *grid), -1)
    counted = np.zeros((*owner.shape, CLASSES), bool)
    for image, i, j in np.ndindex(owner.shape):
        y, x = (i + 0.5) * size / grid[0], (j + 0.5) * size / grid[1]
        rows = target[image]
        counted[image, i, j] = (rows[:, 4] >= 0).any() or rows[0, 5] == EMPTY
        best = np.inf
        for place, (x0, y0, x1, y1, label, flag) in enumerate(rows):
            if label < 0 or not (x0 < x < x1 and y0 < y < y1):
                continue
            if flag == 2:
                counted[image, i, j, int(label)] = False
            elif flag == 0 and (x1 - x0) * (y1 - y0) < best:
                best, owner[image, i, j] = (x1 - x0) * (y1 - y0), place
        if owner[image, i, j] >= 0:
            counted[image, i, j, int(rows[owner[image, i, j], 4])] = True
    return owner, counted


@pytest.mark.parametrize("grid", [(6, 6), (5, 7), (1, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_a_loop_over_cells_agrees(grid, seed):
    target = drawn(seed)
    found = look(jnp.asarray(target), grid, 60.0)
    owner, counted = slow(target, grid, 60.0)
    np.testing.assert_array_equal(found.owner, owner)
    np.testing.assert_array_equal(found.counted, counted)
    images, i, j = np.nonzero(owner >= 0)
    rows = target[images, owner[images, i, j]]
    np.testing.assert_array_equal(np.asarray(found.label)[images, i, j], rows[:, 4])
    np.testing.assert_array_equal(np.asarray(found.box)[images, i, j], rows[:, :4])
    assert (np.asarray(found.label)[owner < 0] == -1).all()
    box = np.asarray(found.box)
    assert (box[..., 2:] > box[..., :2]).all()


def test_the_smallest_has_the_cell_and_of_equals_the_first():
    large, small = (0, 0, 8, 8, 0, 0), (0, 0, 4, 4, 1, 0)
    found = look(truth(large, small, (*small[:4], 2, 0)), (4, 4), 8.0)
    expected = np.zeros((4, 4), int)
    expected[:2, :2] = 1
    np.testing.assert_array_equal(found.owner[0], expected)


def test_a_centre_on_the_edge_is_outside_and_a_small_object_may_go_unasked():
    assert (np.asarray(look(truth((1, 1, 3, 3, 0, 0)), (4, 4), 8.0).owner) == -1).all()
    inside = np.asarray(look(truth((0.99, 0.99, 3, 3, 0, 0)), (4, 4), 8.0).owner[0])
    assert inside[0, 0] == 0
    assert (inside == 0).sum() == 1
    assert (np.asarray(look(truth((1.2, 1.2, 2.8, 2.8, 0, 0)), (4, 4), 8.0).owner) == -1).all()


def test_difficult_is_background_and_a_crowd_is_not_asked_about_its_class():
    difficult = look(truth((0, 0, 8, 8, 0, 1)), (4, 4), 8.0)
    assert (np.asarray(difficult.owner) == -1).all()
    assert np.asarray(difficult.counted).all()
    crowd = look(truth((0, 0, 8, 4, 1, 2), (0, 0, 2, 2, 1, 0), (2, 0, 4, 2, 0, 0)), (4, 4), 8.0)
    counted = np.asarray(crowd.counted[0])
    assert counted[..., [0, 2]].all()
    assert counted[2:, :, 1].all()
    assert counted[0, 0, 1]
    assert not counted[0, 1:, 1].any()
    assert not counted[1, :, 1].any()


def test_an_image_without_objects_exists_and_filling_does_not():
    target = jnp.concatenate([truth((0, 0, 0, 0, -1, EMPTY)), truth(), truth((0, 0, 1, 1, 0, 1))])
    np.testing.assert_array_equal(exists(target), [True, False, True])
    counted = np.asarray(look(target, (2, 2), 8.0).counted)
    np.testing.assert_array_equal(counted.all((1, 2, 3)), [True, False, True])
    assert not counted[1].any()
