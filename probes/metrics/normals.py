"""Metrics of surface normals.  Axes: b images, H W pixels; target normals are unit vectors, zero where unknown.

The angle between two directions, in degrees: its mean, median and root mean square, and the shares of pixels below
11.25°, 22.5° and 30° (Fouhey, Gupta & Hebert, ICCV 2013). Headline values are means over images; `_pooled` ones are
taken over all pixels together. Chance is 90° for directions drawn at random.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes.metrics.angles import arctangent
from probes.metrics.depth import median
from probes.metrics.sums import ratio

LIMITS = (11.25, 22.5, 30.0)
SHORTEST = 0.1  # a target shorter than this after decoding is none
BINS = 720  # of a quarter of a degree: the pooled median is read from them


class Tally(NamedTuple):
    """Of each image; all but the median add over images."""

    pixels: Float[Array, "*b"]
    within: Float[Array, "*b 3"]  # pixels whose error is below 11.25, 22.5, 30 degrees
    error: Float[Array, "*b"]  # degrees
    squared: Float[Array, "*b"]
    histogram: Float[Array, "*b bins"]
    median: Float[Array, "*b"]


def valid(target: Float[Array | np.ndarray, "*b H W 3"]) -> Bool[Array, "*b H W"]:
    """Where there is a normal: neither shorter than 0.1 nor infinite."""
    length = (target**2).sum(-1)
    return (length >= SHORTEST**2) & jnp.isfinite(length)


def angle(first: Float[Array, 3 * s], second: Float[Array, 3 * s], least: float = 0.0) -> Float[Array, "*s"]:
    """Between two directions of any length, in radians, components first; 90° where one is zero.

    From the sine and the cosine together: an arc cosine alone has an infinite slope at 0 and 180 degrees, where
    float32 tells angles below 0.02° apart no more, and a clamp there takes the gradient of all that is closer.
    `least` (a length) keeps the slope finite: without it the gradient at 0° and 180° is NaN.
    """
    (a, b, c), (x, y, z) = first, second
    sine = jnp.sqrt((b * z - c * y) ** 2 + (c * x - a * z) ** 2 + (a * y - b * x) ** 2 + least**2)
    cosine = a * x + b * y + c * z
    nowhere = (sine == 0) & (cosine == 0)
    return arctangent(jnp.where(nowhere, 1, sine), cosine)


@jax.jit
def tally(
    prediction: Float[Array | np.ndarray, "b H W 3"], target: Float[Array | np.ndarray, "b H W 3"]
) -> Tally:
    """Sums of the errors of each image."""

    def one(pair: tuple[Array, Array]) -> Tally:
        predicted, truth = pair
        known = valid(truth)
        each = jnp.rad2deg(angle(jnp.moveaxis(predicted, -1, 0), jnp.moveaxis(truth, -1, 0)))
        each = jnp.where(known, each, 0)
        bins = jnp.minimum((each * (BINS / 180)).astype(jnp.int32), BINS - 1)
        return Tally(
            known.sum(dtype=each.dtype),
            jnp.stack([(known & (each < limit)).sum(dtype=each.dtype) for limit in LIMITS]),
            each.sum(),
            (each**2).sum(),
            jnp.zeros(BINS, each.dtype).at[bins.ravel()].add(known.ravel().astype(each.dtype)),
            median(each, known),
        )

    found: Tally = jax.lax.map(one, (prediction, target))
    return found


def value(total: Tally) -> dict[str, np.ndarray]:
    """`mean` and `rmse` in degrees, `d1` `d2` `d3`; of an image or of several summed. NaN without a valid pixel."""
    count, within = (np.asarray(part, np.float64) for part in (total.pixels, total.within))
    shares = {f"d{number + 1}": ratio(within[..., number], count) for number in range(3)}
    return {"mean": ratio(total.error, count), "rmse": np.sqrt(ratio(total.squared, count)), **shares}


def pooled_median(histogram: Float[Array | np.ndarray, "*b bins"]) -> Float[np.ndarray, "*b"]:
    """Degrees below which half of the pixels lie, even spread within a bin of 0.25° taken for granted."""
    counts = np.asarray(histogram, np.float64)
    below = np.cumsum(counts, axis=-1)
    half = below[..., -1:] / 2
    bin_ = np.minimum((below < half).sum(-1, keepdims=True), counts.shape[-1] - 1)
    inside, upto = (np.take_along_axis(table, bin_, -1) for table in (counts, below))
    share = (half - (upto - inside)) / np.maximum(inside, 1e-300)
    place = (bin_ + share) * (180 / counts.shape[-1])
    return np.where(half > 0, place, np.nan)[..., 0]
