"""The crests of a soft map: what is not less than its neighbours across the ridge it lies on.

Non-maximum suppression as learned boundary detectors are scored with (Dollár and Zitnick, PAMI 2015; after Canny,
1986).  The direction across is taken from second derivatives of a map smoothed over nine pixels; values are compared
one pixel away, smoothed over three, and may be a hundredth lower.  A pixel that nothing in its 3×3 neighbourhood
exceeds is kept too: a drawing of thin lines passes unchanged.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.ndimage import convolve1d, map_coordinates, maximum_filter

_ACROSS, _COMPARED, _LENIENT = 4, 1, 1.01
_ROUNDED = 1 + 1e-6  # what is equal but for rounding


def crests(prediction: Float[np.ndarray, "h w"]) -> Float[np.ndarray, "h w"]:
    """The map with 0 wherever it is no crest."""
    if min(prediction.shape) < 2:
        return prediction
    values = prediction.astype(np.float64)
    down, right = np.gradient(_smooth(values, _ACROSS))
    (yy, _), (xy, xx) = np.gradient(down), np.gradient(right)
    # The eigenvector of the greater curvature: half the angle of (xx - yy, 2 xy), turned where the sum is positive.
    angle = np.arctan2(2 * xy, xx - yy) / 2 + np.where(xx + yy < 0, np.pi / 2, 0)
    y, x = np.mgrid[: values.shape[0], : values.shape[1]]
    smooth = _smooth(values, _COMPARED)
    kept = values * _ROUNDED >= maximum_filter(values, 3)
    beside = [
        map_coordinates(smooth, [y + side * np.sin(angle), x + side * np.cos(angle)], order=1, mode="nearest")
        for side in (-1, 1)
    ]
    kept |= smooth * _LENIENT >= np.maximum(*beside)
    return np.where(kept, prediction, 0)


def _smooth(values: np.ndarray, radius: int) -> np.ndarray:
    """By a triangle, along both axes."""
    rising = np.arange(1, radius + 1)
    kernel = np.concatenate([rising, [radius + 1], rising[::-1]]) / (radius + 1) ** 2
    smooth: np.ndarray = convolve1d(convolve1d(values, kernel, axis=0), kernel, axis=1)
    return smooth
