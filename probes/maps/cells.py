"""What a grid could say at best, and what a fixed map says.  Axes: b images, h w grid, H W pixels, c channels."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Num
from numpy import ndarray

from probes import resizing


class Evidence(NamedTuple):
    """Sums over images for every place; summed over an axis too (and kept as 1 wide) they broadcast."""

    total: Num[Array | ndarray, "H W c"]
    pixels: Num[Array | ndarray, "H W"]


@jax.jit
def evidence(values: Float[Array | ndarray, "b H W c"], known: Bool[Array | ndarray, "b H W"]) -> Evidence:
    """Of the values where they are known."""
    return Evidence(
        jnp.where(known[..., None], values, 0).sum(0),
        known.sum(0, dtype=jnp.promote_types(values.dtype, jnp.float32)),
    )


@jax.jit
def mean(found: Evidence) -> Float[Array, "H W c"]:
    """The mean of each place; the mean of all where none was known there, 0 where none was known at all."""
    total, pixels = jnp.asarray(found.total), jnp.asarray(found.pixels)[..., None]
    everywhere = total.sum((0, 1)) / jnp.maximum(pixels.sum(), 1)
    return jnp.where(pixels > 0, total / jnp.maximum(pixels, 1), everywhere)


@partial(jax.jit, static_argnames="grid")
def ceiling(
    values: Float[Array | ndarray, "b H W c"], known: Bool[Array | ndarray, "b H W"], grid: tuple[int, int]
) -> Float[Array, "b H W c"]:
    """The mean of the known pixels of each cell, upsampled; cells with none do not take part in a blend.

    In the midst of such cells it is 0, but there nothing is known that it could be held against.
    """
    size = known.shape[1], known.shape[2]
    rows, columns = (jnp.asarray(resizing.average(*pair)) for pair in zip(grid, size, strict=True))
    area = jnp.einsum("ih,jw,bhw->bij", rows, columns, known.astype(values.dtype))[..., None]
    total = jnp.einsum("ih,jw,bhwc->bijc", rows, columns, jnp.where(known[..., None], values, 0))
    has = (area > 0).astype(values.dtype)
    means = jnp.concatenate([total / jnp.where(area > 0, area, 1), has], axis=-1)
    blended = jnp.moveaxis(resizing.upsample(means, size), -3, -1)
    weight = blended[..., -1:]
    return jnp.where(weight > 0, blended[..., :-1] / jnp.where(weight > 0, weight, 1), 0)
