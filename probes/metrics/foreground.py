"""Foreground against background: counts of pixels that add up.  Axes: n images, H W pixels.

A prediction is a probability of foreground; above 0.5 it says foreground.  The IoU of the foreground is the number to
quote: where little of a picture is foreground, pixel accuracy is high for saying nothing.  A prediction of foreground
everywhere has the share of the foreground as its IoU.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Integer, Num

from probes.metrics.sums import ratio

VOID = 255


class Tally(NamedTuple):
    """Counts of valid pixels; the tally of two sets of pixels is their sum."""

    hits: Num[np.ndarray | Array, "*n"]  # foreground, and said to be
    predicted: Num[np.ndarray | Array, "*n"]
    foreground: Num[np.ndarray | Array, "*n"]
    pixels: Num[np.ndarray | Array, "*n"]


def valid(target: Integer[np.ndarray | Array, "*n H W"]) -> Bool[np.ndarray | Array, "*n H W"]:
    """Where there is something to be right about."""
    return target != VOID


@jax.jit
def tally(
    prediction: Float[np.ndarray | Array, "#n #H #W"], target: Integer[np.ndarray | Array, "n H W"]
) -> Tally:
    """Of each image; a prediction that is one for all images, rows or columns is spread over them."""
    counted = jnp.asarray(valid(target))
    said, true = jnp.broadcast_to(prediction > 0.5, target.shape) & counted, jnp.asarray(target == 1)

    def count(pixels: Bool[Array, "n H W"]) -> Int[Array, " n"]:
        return pixels.sum((-2, -1), dtype=jnp.int32)

    return Tally(count(said & true), count(said), count(true), count(counted))


def value(sums: Tally) -> dict[str, np.ndarray]:
    """Of any sums of tallies, leading axes kept; NaN where there is no valid pixel.

    `iou` and `f1` (Dice) are those of the foreground, and 1 where there is none and none is said.
    """
    hits, predicted, foreground, pixels = (np.asarray(each, np.float64) for each in sums)
    right, union = pixels - predicted - foreground + 2 * hits, predicted + foreground - hits
    return {
        "iou": _share(hits, union, pixels),
        "f1": _share(2 * hits, predicted + foreground, pixels),
        "pixel_acc": _share(right, pixels, pixels),
        "foreground_share": _share(foreground, pixels, pixels),
    }


def _share(part: Any, whole: Any, pixels: Any) -> np.ndarray:
    return np.where(pixels > 0, ratio(part, whole, otherwise=1.0), np.nan)
