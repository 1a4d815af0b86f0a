"""How far a predicted orientation is off, in degrees of [0, 90].  Axes: n images, H W pixels, t bins.

An orientation a is the same as a + 180°, so it is held as the unit vector (cos 2a, sin 2a); the error is half the
angle between two such vectors, and 45° on average for a prediction that knows nothing.  Pixels count by their
coherence, which is 0 where a picture has no orientation.  A prediction of no direction at all counts as 45°.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from probes.metrics.angles import arctangent
from probes.metrics.sums import ratio

CHANCE_DEG = 45.0
BINS = 360  # a quarter of a degree each
HALVINGS = 26  # of 90°: finer than float32 tells errors apart


class Tally(NamedTuple):
    """Statistics of images; all but the median add up to those of their pixels together."""

    weight: Num[np.ndarray | Array, "*n"]  # sum of coherence
    error: Num[np.ndarray | Array, "*n"]  # sum of coherence times error, in degrees
    bins: Num[np.ndarray | Array, "*n t"]  # coherence of the pixels whose error lies in each bin
    median: Num[np.ndarray | Array, "*n"]  # the weighted median of each image, in degrees


def angle(said: Float[Array, "*#n 2"], true: Float[Array, "*#n 2"]) -> Float[Array, "*n"]:
    """Between two vectors of any length, in radians of [0, π]; π / 2 where either is zero.

    By the arctangent: the arccosine of a float32 is blind to angles below 0.02°.
    """
    along = (said * true).sum(-1)
    across = jnp.abs(said[..., 0] * true[..., 1] - said[..., 1] * true[..., 0])
    nowhere = (along == 0) & (across == 0)
    return jnp.where(nowhere, jnp.pi / 2, arctangent(across, along))


@jax.jit
def tally(
    prediction: Float[np.ndarray | Array, "#n #H #W 2"], target: Float[np.ndarray | Array, "n H W 3"]
) -> Tally:
    """Of each image; a prediction that is one for all images, rows or columns is spread over them."""
    error = jnp.rad2deg(angle(jnp.asarray(prediction), jnp.asarray(target[..., :2]))) / 2
    count = len(target)
    error, weight = error.reshape(count, -1), jnp.asarray(target[..., 2]).reshape(count, -1)
    place = jnp.clip((error * (BINS / 90)).astype(jnp.int32), 0, BINS - 1)
    bins = jax.vmap(lambda place, weight: jnp.zeros(BINS).at[place].add(weight))(place, weight)
    return Tally(weight.sum(-1), (weight * error).sum(-1), bins, _median(error, weight))


def value(tally: Tally) -> dict[str, np.ndarray]:
    """Of each image, `mean_error_deg` and `median_error_deg`, the least error that half the weight does not exceed.

    NaN where a picture has no orientation anywhere.
    """
    mean = ratio(tally.error, tally.weight)
    median = np.where(np.isnan(mean), np.nan, np.asarray(tally.median, np.float64))
    return {"mean_error_deg": mean, "median_error_deg": median}


def pooled(sums: Tally) -> dict[str, np.ndarray]:
    """The same of any sums of tallies, leading axes kept; the median is interpolated in its quarter of a degree."""
    bins = np.asarray(sums.bins, np.float64)
    up_to = bins.cumsum(-1)
    half = up_to[..., -1:] / 2
    inside = (up_to < half).sum(-1, keepdims=True)  # the bin that the median lies in
    inside = np.minimum(inside, BINS - 1)
    own, before = (np.take_along_axis(each, inside, -1) for each in (bins, up_to - bins))
    part = ratio(half - before, own, otherwise=0.0)
    mean = ratio(sums.error, sums.weight)
    median = np.where(np.isnan(mean), np.nan, ((inside + part) * (90 / BINS))[..., 0])
    return {"mean_error_deg": mean, "median_error_deg": median}


def _median(error: Float[Array, "n p"], weight: Float[Array, "n p"]) -> Float[Array, " n"]:
    """By halving the interval that it lies in: sorting the pixels takes thirty times as long."""
    half = weight.sum(-1) / 2

    def halve(_: int | Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        enough = jnp.where(error <= middle[:, None], weight, 0).sum(-1) >= half
        return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

    ends = jnp.full(half.shape, -1e-6), jnp.full(half.shape, 90.0)
    _, high = jax.lax.fori_loop(0, HALVINGS, halve, ends)
    return jnp.where((error <= high[:, None]) & (weight > 0), error, 0).max(-1)
