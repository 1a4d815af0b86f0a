"""Scores of many bins turned into one number a pixel.  Axes: b images, h w grid, k bins, H W pixels.

A pixel's scores, upsampled, go through ReLU + 0.1, are divided by their sum, and weigh the values of the bins
(Bhat et al., "AdaBins", CVPR 2021; in this linear form El Banani et al., "probe3d", CVPR 2024). 256 bins at full
resolution are 51 MB an image, and as many again for every step of the chain that a gradient wants kept. So a row of
pixels is taken at a time: its (k, W) scores are a blend of two rows of the grid, stretched beforehand, and stay in
cache; the two sums over bins are one matrix product. The way back makes the same row again. Kept from the way there
are the grid and two numbers a pixel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probes import blocks, resizing

FLOOR = 0.1  # added to every bin's score: where all are negative the answer is the middle of the range


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def expectation(
    raw: Float[Array, "b h w k"], size: tuple[int, int], stride: int, limits: tuple[float, float]
) -> Float[Array, "b H W"]:
    """The expected value of each pixel of a lattice of `size`; the bins' values lie evenly in `limits`."""
    return _forward(raw, size, stride, limits)[0]


def _forward(
    raw: Array, size: tuple[int, int], stride: int, limits: tuple[float, float]
) -> tuple[Array, tuple[Array, Array, Array]]:
    total, weighted = _each(partial(_sums, size=size, stride=stride, limits=limits), raw)
    value = weighted / total
    return value, (raw, total, value)


def _backward(
    size: tuple[int, int],
    stride: int,
    limits: tuple[float, float],
    kept: tuple[Array, Array, Array],
    gradient: Array,
) -> tuple[Array]:
    raw, total, value = kept
    slope = (
        gradient / total
    )  # a bin's gradient: its value minus the expected one, times this, if it is positive
    one = partial(_gradient, size=size, stride=stride, limits=limits)
    return (_each(one, raw, slope, slope * value),)


expectation.defvjp(_forward, _backward)


def _each(one: Callable[..., Any], *images: Array) -> Any:
    """Image by image on a CPU, and setting by setting: side by side their rows would leave the cache."""
    if jax.default_backend() != "cpu":
        return jax.vmap(one)(*images)
    return blocks.each_image(one, *images)


def _sums(
    grid: Float[Array, "h w k"], *, size: tuple[int, int], stride: int, limits: tuple[float, float]
) -> tuple[Float[Array, "H W"], Float[Array, "H W"]]:
    """Of each pixel the sum of its bins' weights, and the sum of weight times value."""
    values = _values(limits, grid)
    both = jnp.stack([jnp.ones_like(values), values])
    across = _across(grid, size[1], stride)
    stretched = jnp.einsum("ijk,Wj->ikW", grid, across)

    def row(taps: tuple[Array, ...]) -> Array:
        return both @ (jax.nn.relu(_blend(stretched, *taps)) + FLOOR)

    found = jax.lax.map(row, _taps(size[0], grid, stride))
    return found[:, 0], found[:, 1]


def _gradient(
    grid: Float[Array, "h w k"],
    slope: Float[Array, "H W"],
    centre: Float[Array, "H W"],
    *,
    size: tuple[int, int],
    stride: int,
    limits: tuple[float, float],
) -> Float[Array, "h w k"]:
    """What every pixel's slope · (value of the bin) − centre comes to on the grid, over bins that are positive."""
    values = _values(limits, grid)[:, None]
    across = _across(grid, size[1], stride)
    stretched = jnp.einsum("ijk,Wj->ikW", grid, across)

    def row(total: Array, step: tuple[tuple[Array, ...], Array, Array]) -> tuple[Array, None]:
        taps, slope, centre = step
        upper, lower, first, second = taps
        each = jnp.where(_blend(stretched, *taps) > 0, values * slope - centre, 0)
        return total.at[upper].add(first * each).at[lower].add(second * each), None

    steps = _taps(size[0], grid, stride), slope, centre
    total, _ = jax.lax.scan(row, jnp.zeros_like(stretched), steps)
    return jnp.einsum("ikW,Wj->ijk", total, across)


def _values(limits: tuple[float, float], like: Array) -> Float[Array, " k"]:
    return jnp.linspace(*limits, like.shape[-1], dtype=like.dtype)


def _across(grid: Array, wide: int, stride: int) -> Float[Array, "W w"]:
    return jnp.asarray(resizing.weights(wide, grid.shape[1], stride), grid.dtype)


def _blend(stretched: Array, upper: Array, lower: Array, first: Array, second: Array) -> Float[Array, "k W"]:
    return first * stretched[upper] + second * stretched[lower]


def _taps(high: int, grid: Array, stride: int) -> tuple[Array, Array, Array, Array]:
    """The two rows of the grid that each row of pixels lies between, and how much it takes of each."""
    table = resizing.weights(high, len(grid), stride)
    upper = (table > 0).argmax(1)
    lower = np.minimum(upper + 1, len(grid) - 1)
    rows = np.arange(len(table))
    first, second = table[rows, upper], np.where(lower > upper, table[rows, lower], 0)
    return (
        jnp.asarray(upper),
        jnp.asarray(lower),
        jnp.asarray(first, grid.dtype),
        jnp.asarray(second, grid.dtype),
    )
