"""Intersection over union and its kin.  Axes: n images, c classes.

All of them are functions of three counts a class: pixels that are right, pixels of the target, pixels of the
prediction.  Counts add over images, so one table serves a split, an image and a resample of either.  Void pixels
enter none of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer, UInt8

from probes.metrics.sums import ratio

VOID = 255


class Tally(NamedTuple):
    """Counts of pixels; the tally of two sets of pixels is their sum."""

    hits: Int[np.ndarray, "*n c"]
    target: Int[np.ndarray, "*n c"]
    prediction: Int[np.ndarray, "*n c"]


def tally(
    prediction: Integer[np.ndarray, n * hw], target: UInt8[np.ndarray, n * hw], *, num_classes: int
) -> Tally:
    """Of each image."""
    pairs = np.empty((len(target), num_classes, num_classes), np.int64)
    for row, (said, true) in enumerate(zip(prediction, target, strict=True)):
        cells = (
            true.astype(np.int64) * num_classes + said
        )  # void has a row of its own, behind those of classes
        counts = np.bincount(cells.ravel(), minlength=num_classes**2)
        pairs[row] = counts[: num_classes**2].reshape(num_classes, num_classes)
    return Tally(pairs.diagonal(axis1=1, axis2=2), pairs.sum(2), pairs.sum(1))


def iou(sums: Tally) -> Float[np.ndarray, "*n c"]:
    """Of each class; NaN where it occurs in neither target nor prediction."""
    return ratio(sums.hits, sums.target + sums.prediction - sums.hits)


def value(sums: Tally) -> dict[str, np.ndarray]:
    """Of any sums of tallies, leading axes kept; NaN where there is no valid pixel.

    `miou`, `precision`, `recall` and `f1` (Dice) average the classes of target or prediction, one that lacks in either
    counting as 0; `mean_acc` is the recall of the classes of the target alone, and `fw_iou` weighs each class's IoU
    by its share of the target.
    """
    pixels = sums.target.sum(-1)
    present = sums.target + sums.prediction > 0
    weighted = (np.nan_to_num(iou(sums)) * sums.target).sum(-1)
    return {
        "miou": _mean(iou(sums)),
        "pixel_acc": ratio(sums.hits.sum(-1), pixels),
        "mean_acc": _mean(ratio(sums.hits, sums.target)),
        "fw_iou": ratio(weighted, pixels),
        "precision": _mean(np.where(present, np.nan_to_num(ratio(sums.hits, sums.prediction)), np.nan)),
        "recall": _mean(np.where(present, np.nan_to_num(ratio(sums.hits, sums.target)), np.nan)),
        "f1": _mean(ratio(2 * sums.hits, sums.target + sums.prediction)),
    }


def _mean(values: np.ndarray) -> np.ndarray:
    """Over the classes that have a value."""
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0).sum(-1), known.sum(-1))
