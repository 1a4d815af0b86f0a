"""Foreground counts: scikit-learn, nothing to find, void pixels, sums."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, jaccard_score

from probes.metrics import foreground


def drawn(seed: int, count: int = 5, side: int = 9) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    target = rng.choice([0, 1, 255], (count, side, side), p=[0.5, 0.3, 0.2]).astype(np.uint8)
    return rng.random((count, side, side)).astype(np.float32), target


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_scikit_learn_agrees(seed):
    prediction, target = drawn(seed)
    found = foreground.value(foreground.tally(prediction, target))
    for row in range(len(target)):
        known = target[row] != 255
        true, said = target[row][known], prediction[row][known] > 0.5
        assert found["iou"][row] == pytest.approx(jaccard_score(true, said, zero_division=1))
        assert found["f1"][row] == pytest.approx(f1_score(true, said, zero_division=1))
        assert found["pixel_acc"][row] == pytest.approx(accuracy_score(true, said))
        assert found["foreground_share"][row] == pytest.approx(true.mean())


def test_sums_are_those_of_all_pixels():
    prediction, target = drawn(1)
    tally = foreground.tally(prediction, target)
    total = jax.tree.map(lambda leaf: np.asarray(leaf).sum(0), tally)
    known = target != 255
    expected = jaccard_score(target[known], prediction[known] > 0.5)
    assert foreground.value(total)["iou"] == pytest.approx(expected)
    parts = [foreground.tally(prediction[part], target[part]) for part in (slice(2), slice(2, 5))]
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    assert all((a == b).all() for a, b in zip(tally, joined, strict=True))
    weights = np.random.default_rng(0).integers(0, 3, (7, 5))  # resamples: leading axes are kept
    many = foreground.value(foreground.Tally(*(weights @ np.asarray(leaf) for leaf in tally)))
    chosen = foreground.Tally(*((weights[3] * np.asarray(leaf)).sum() for leaf in tally))
    assert many["f1"].shape == (7,)
    assert many["f1"][3] == foreground.value(chosen)["f1"]


@pytest.mark.parametrize(
    ("said", "true", "iou", "accuracy"),
    [
        ([0.1, 0.2], [0, 0], 1.0, 1.0),  # empty and empty
        ([0.9, 0.2], [0, 0], 0.0, 0.5),
        ([0.1, 0.2], [1, 0], 0.0, 0.5),
        ([0.5, 0.6], [1, 1], 0.5, 0.5),  # one half is not yet foreground
        ([0.9, 0.1], [1, 255], 1.0, 1.0),
        ([0.9, 0.9], [255, 255], np.nan, np.nan),
    ],
)
def test_known_values(said, true, iou, accuracy):
    found = foreground.value(foreground.tally(np.array([[said]], np.float32), np.array([[true]], np.uint8)))
    assert found["iou"] == pytest.approx([iou], nan_ok=True)
    assert found["pixel_acc"] == pytest.approx([accuracy], nan_ok=True)


def test_what_void_pixels_say_does_not_matter():
    prediction, target = drawn(2)
    changed = np.where(target == 255, 1 - prediction, prediction)
    assert all(
        (a == b).all()
        for a, b in zip(foreground.tally(prediction, target), foreground.tally(changed, target), strict=True)
    )


def test_one_map_serves_all_and_foreground_everywhere_scores_its_share():
    _, target = drawn(3)
    everywhere = foreground.value(foreground.tally(np.ones((1, 1, 1), np.float32), target))
    assert everywhere["iou"] == pytest.approx(everywhere["foreground_share"])
    nowhere = foreground.value(foreground.tally(np.zeros((1, 9, 9), np.float32), target))
    assert nowhere["pixel_acc"] == pytest.approx(1 - nowhere["foreground_share"])
    assert (nowhere["iou"] == 0).all()
