"""Targets made from a picture itself: corners and orientations.  Axes: h w pixels, rows downwards.

Both come from the structure tensor (Förstner & Gülch, 1987) of the picture as a backbone sees it: cropped, resized,
8 bits a channel, before mean and std.  So they depend on the model's own interpolation, and a set of maps belongs to
the size and interpolation it was made at.  Worked out in 64 bit, kept in 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from extract.errors import InputError

VERSION = 1  # counted up when the numbers change
LUMA = (0.299, 0.587, 0.114)  # of red, green, blue in [0, 1]
SOBEL = 8.0  # its weights are divided by this: a ramp of 1 a pixel has a gradient of 1
SIGMA, RADIUS = 2.0, 6  # pixels: of the Gaussian that smooths products of gradients
GAIN = 1e4  # of corners, in the logarithm
FLOOR = 1e-12  # of the tensor's trace: at or below it, a picture is plain


def corner(pixels: np.ndarray) -> np.ndarray:
    """(h, w) float32: log(1 + 10⁴ λ), λ the smaller eigenvalue, which only corners have (Shi & Tomasi, CVPR 1994)."""
    xx, xy, yy = _tensor(pixels)
    smaller = (xx + yy - np.hypot(xx - yy, 2 * xy)) / 2
    response: np.ndarray = np.log1p(GAIN * np.maximum(smaller, 0))
    return response.astype(np.float32)


def orientation(pixels: np.ndarray) -> np.ndarray:
    """(h, w, 3) float32: cos 2a, sin 2a and coherence in [0, 1], a the direction in which the picture changes most.

    a is 0 where it changes from left to right and 90° from top to bottom; 45° is towards the lower right. The
    coherence is the difference of the eigenvalues over their sum, and 0 where the picture is plain.
    """
    xx, xy, yy = _tensor(pixels)
    double, trace = np.arctan2(2 * xy, xx - yy), xx + yy
    plain = trace <= FLOOR
    coherence = np.where(plain, 0, np.hypot(xx - yy, 2 * xy) / np.where(plain, 1, trace))
    return np.stack([np.cos(double), np.sin(double), np.minimum(coherence, 1)], -1).astype(np.float32)


MADE = {"corner": corner, "orientation": orientation}


def describe(name: str) -> dict[str, Any]:
    """JSON values: all that could change a number of a target in `MADE`, besides the picture."""
    constants: dict[str, Any] = {
        "made": name,
        "version": VERSION,
        "luma": list(LUMA),
        "gradient": f"sobel/{SOBEL:g}",
        "sigma": SIGMA,
        "radius": RADIUS,
        "edges": "replicated",
    }
    return constants | ({"gain": GAIN} if name == "corner" else {"floor": FLOOR})


def _tensor(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Smoothed products of the gradient along columns (x, to the right) and along rows (y, downwards)."""
    from scipy import ndimage  # it has no types; slow to import

    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
        raise InputError(
            f"the picture has shape {pixels.shape} and type {pixels.dtype}; wanted (h, w, 3) of uint8, as decoded"
        )
    red, green, blue = np.moveaxis(pixels.astype(np.float64), -1, 0)
    luma = (
        LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue
    ) / 255  # a plain picture stays plain to the last bit
    x, y = (ndimage.sobel(luma, axis, mode="nearest") / SOBEL for axis in (1, 0))
    smooth = (
        ndimage.gaussian_filter(product, SIGMA, mode="nearest", radius=RADIUS)
        for product in (x * x, x * y, y * y)
    )
    xx, xy, yy = smooth
    return xx, xy, yy
