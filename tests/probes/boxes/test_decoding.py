"""From scores to detections: against torchvision's suppression, ties, limits, the frame."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.ops import batched_nms

from probes.boxes.decoding import Limits, decode, nms

suppress = jax.jit(nms, static_argnums=(2, 3))
say = jax.jit(decode, static_argnums=(2, 3))


def drawn(seed: int, count: int, side: int = 40, classes: int = 3):
    """Boxes on whole numbers, so that overlaps of exactly a half occur, and scores with ties."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, side, (count, 2))
    boxes = np.concatenate([low, low + rng.integers(1, side, (count, 2))], -1).astype(np.float32)
    return boxes, rng.integers(0, 40, count).astype(np.float32) / 40, rng.integers(0, classes, count)


def ordered(scores: np.ndarray) -> np.ndarray:
    return np.argsort(-scores, kind="stable")


@pytest.mark.parametrize("count", [60, 1500])
@pytest.mark.parametrize("threshold", [0.5, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_what_stays_is_what_torchvision_keeps(count, threshold, seed):
    """Of rows whose scores fall strictly, since torchvision leaves ties open."""
    boxes, scores, labels = drawn(seed, count)
    order = ordered(scores)
    ranked = np.linspace(1, 0, count, dtype=np.float32)
    expected = batched_nms(
        torch.from_numpy(boxes[order]), torch.from_numpy(ranked), torch.from_numpy(labels[order]), threshold
    ).numpy()
    found = np.asarray(suppress(jnp.asarray(boxes[order]), jnp.asarray(labels[order]), threshold, count))
    np.testing.assert_array_equal(found[: len(expected)], expected)
    assert (found[len(expected) :] == -1).all()
    few = np.asarray(suppress(jnp.asarray(boxes[order]), jnp.asarray(labels[order]), threshold, 7))
    np.testing.assert_array_equal(few, found[:7])


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_suppression_is_free_of_unit_and_place_and_says_nothing_twice(seed):
    boxes, _, labels = drawn(seed, 50)
    labels[seed % 5 :: 5] = -1
    found = np.asarray(suppress(jnp.asarray(boxes), jnp.asarray(labels), 0.5, 50))
    moved = suppress(jnp.asarray((boxes + 8) * 4), jnp.asarray(labels), 0.5, 50)
    np.testing.assert_array_equal(found, moved)
    kept = found[found >= 0]
    assert (labels[kept] >= 0).all()
    assert (np.diff(kept) > 0).all()
    again = np.asarray(
        suppress(jnp.asarray(boxes[kept[:1].repeat(50)]), jnp.full(50, labels[kept[0]]), 0.5, 50)
    )
    assert (again >= 0).sum() == 1


def test_half_an_overlap_is_not_more_than_half():
    boxes = jnp.array([[0.0, 0, 4, 1], [0, 0, 2, 1], [0, 0, 3, 1]])
    np.testing.assert_array_equal(suppress(boxes, jnp.zeros(3, int), 0.5, 3), [0, 1, -1])
    np.testing.assert_array_equal(suppress(boxes, jnp.array([0, 1, 2]), 0.5, 3), [0, 1, 2])


def test_images_side_by_side_are_images_alone():
    many = [drawn(seed, 80, classes=1 + seed) for seed in range(4)]
    boxes, labels = (jnp.asarray(np.stack([each[part] for each in many])) for part in (0, 2))
    labels = labels.at[2].set(-1)
    one = partial(nms, threshold=0.5, most=30)
    together = jax.jit(jax.vmap(one))(boxes, labels)
    for found, box, label in zip(together, boxes, labels, strict=True):
        np.testing.assert_array_equal(found, suppress(box, label, 0.5, 30))
    assert (np.asarray(together[2]) == -1).all()


def test_every_score_above_the_threshold_counts_once_a_class():
    scores = jnp.array([[0.9, 0.05], [0.06, 0.7], [0.0, 0.0501]])
    boxes = jnp.array([[-5.0, 2, 12, 4], [0, 5, 4, 9], [6, 6, 9, 20]])
    found = np.asarray(say(scores, boxes, 10.0, Limits(max_detections=6)))
    expected = [
        [0, 2, 10, 4, 0.9, 0],
        [0, 5, 4, 9, 0.7, 1],
        [0, 5, 4, 9, 0.06, 0],
        [6, 6, 9, 10, 0.0501, 1],
        [0, 0, 0, 0, 0, -1],
        [0, 0, 0, 0, 0, -1],
    ]
    np.testing.assert_allclose(found, np.array(expected, np.float32))
    np.testing.assert_allclose(say(scores, boxes, 10.0, Limits(max_detections=2)), found[:2])
    np.testing.assert_allclose(
        say(scores, boxes, 10.0, Limits(max_detections=6, candidates=2))[:2], found[:2]
    )
    assert (np.asarray(say(scores, boxes, 10.0, Limits(candidates=2)))[2:, 5] == -1).all()


def test_boxes_are_clamped_before_they_are_compared():
    """Only in the frame do these two cover each other."""
    boxes, scores = jnp.array([[0.0, 0, 30, 4], [0, 0, 4, 30]]), jnp.array([[0.9], [0.8]])
    assert (np.asarray(say(scores, boxes, 4.0, Limits()))[:, 5] >= 0).sum() == 1
    assert (np.asarray(say(scores, boxes, 30.0, Limits()))[:, 5] >= 0).sum() == 2


def test_of_equal_scores_the_earlier_cell_comes_first():
    boxes = jnp.array([[0.0, 0, 4, 4], [0, 0, 4, 4.5], [5, 5, 9, 9]])
    found = np.asarray(say(jnp.full((3, 2), 0.5), boxes, 9.0, Limits()))
    np.testing.assert_array_equal(found[:5, 5], [0, 1, 0, 1, -1])
    np.testing.assert_array_equal(found[:4, 3], [4, 4, 9, 9])


def test_scores_that_are_no_numbers_detect_nothing():
    found = say(jnp.full((4, 2), jnp.nan), jnp.zeros((4, 4)), 9.0, Limits())
    assert (np.asarray(found)[:, 5] == -1).all()
