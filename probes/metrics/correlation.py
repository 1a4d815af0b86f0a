"""How far a map of responses is right up to scale and offset (Pearson's r), and how far it is right.

Axes: n images, H W pixels.  r is taken over the valid pixels of an image and is undefined where the prediction or the
target is the same everywhere; such images are left out of a mean, and whoever takes the mean says how many.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

from probes.metrics.sums import ratio

ROUNDING = 4 * float(
    np.finfo(np.float32).eps
)  # an upsampled constant is a constant up to so much of its size


class Tally(NamedTuple):
    """Statistics of images; all but the last three add up to those of their pixels together."""

    pixels: Num[np.ndarray | Array, "*n"]
    absolute: Num[np.ndarray | Array, "*n"]  # sum of absolute errors
    squared: Num[np.ndarray | Array, "*n"]  # and of their squares
    product: Num[
        np.ndarray | Array, "*n"
    ]  # sum of products of an image's centred maps, each in a unit of its own
    predicted: Num[np.ndarray | Array, "*n"]  # and of their squares; 0 where the map is constant
    target: Num[np.ndarray | Array, "*n"]


@jax.jit
def tally(
    prediction: Float[np.ndarray | Array, "#n #H #W"],
    target: Float[np.ndarray | Array, "n H W"],
    valid: Bool[np.ndarray | Array, "n H W"],
) -> Tally:
    """Of each image; a prediction that is one for all images, rows or columns is spread over them."""
    said, true, known = jnp.broadcast_to(prediction, target.shape), jnp.asarray(target), jnp.asarray(valid)
    error = jnp.where(known, said - true, 0)
    said, true = _centred(said, known), _centred(true, known)

    def total(values: Array) -> Float[Array, " n"]:
        return values.sum((-2, -1), dtype=jnp.float32)

    return Tally(
        total(known),
        total(jnp.abs(error)),
        total(error**2),
        total(said * true),
        total(said**2),
        total(true**2),
    )


def correlation(tally: Tally) -> Float[np.ndarray, "*n"]:
    """Pearson's r of each image; NaN where a map is constant or has no valid pixel."""
    product, predicted, target = (
        np.asarray(each, np.float64) for each in (tally.product, tally.predicted, tally.target)
    )
    both = np.sqrt(predicted) * np.sqrt(target)
    return np.asarray(np.clip(ratio(product, both), -1, 1))


def errors(sums: Tally) -> dict[str, np.ndarray]:
    """`rmse` and `mae` of any sums of tallies, leading axes kept; NaN where there is no valid pixel."""
    pixels, absolute, squared = sums[:3]
    return {"rmse": np.asarray(np.sqrt(ratio(squared, pixels))), "mae": ratio(absolute, pixels)}


def _centred(maps: Float[Array, "n H W"], valid: Bool[Array, "n H W"]) -> Float[Array, "n H W"]:
    """Maps less their mean, in units of their range; 0 where not valid, and all 0 where constant.

    The lowest value is taken off before the mean is: of a large offset, float32 would not leave the mean a digit of a
    small spread.
    """
    low = jnp.where(valid, maps, jnp.inf).min((-2, -1), keepdims=True)
    high = jnp.where(valid, maps, -jnp.inf).max((-2, -1), keepdims=True)
    varied = high - low > ROUNDING * jnp.maximum(jnp.abs(low), jnp.abs(high))
    counted = valid & varied
    count = jnp.maximum(valid.sum((-2, -1), keepdims=True), 1)
    shifted = jnp.where(counted, (maps - low) / jnp.where(varied, high - low, 1), 0)
    return jnp.where(counted, shifted - shifted.sum((-2, -1), keepdims=True) / count, 0)
