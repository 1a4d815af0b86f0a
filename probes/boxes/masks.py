"""Masks of objects, 14 × 14 values in a box.  Axes: b images, M boxes, h w grid, H W pixels.

A mask is read off a map by RoIAlign (He, Gkioxari, Dollár and Girshick, ICCV 2017): the box is cut into 14 × 14 equal
parts, and each takes the mean of 2 × 2 points, bilinear between the centres of cells.  All of that is linear, so
it makes no difference whether a 1 × 1 convolution is applied to the features of a box or before, to all cells; here
it is before, and one map serves every box.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

SIDE = 14
SAMPLES = 2  # points a part, each way


def roi_align(
    maps: Float[Array, "b h w"], boxes: Float[Array, "b M 4"], size: float | int
) -> Float[Array, "b M 14 14"]:
    """What each box shows of its image's map, which lies on a frame `size` wide and high.

    Points beyond the outermost centres take the value there; more than half a cell beyond the frame they are 0.
    """
    h, w = maps.shape[1:]
    down = _shares(boxes[..., 1], boxes[..., 3], h, size)
    across = _shares(boxes[..., 0], boxes[..., 2], w, size)
    return jnp.einsum("bmri,bij,bmcj->bmrc", down, maps, across)


def _shares(
    low: Float[Array, "*n"], high: Float[Array, "*n"], cells: int, size: float | int
) -> Float[Array, "*n 14 _h"]:
    """What each part of a side takes of each cell: bilinear weights are products of these two, one an axis."""
    steps = (jnp.arange(SIDE * SAMPLES) + 0.5) / (SIDE * SAMPLES)
    at = (low[..., None] + (high - low)[..., None] * steps) * (cells / size) - 0.5
    seen = (at >= -1) & (at <= cells)
    points = jnp.where(seen[..., None], _between(at, cells), 0)
    return points.reshape(*low.shape, SIDE, SAMPLES, cells).mean(-2)


def _between(at: Float[Array, "*n p"], count: int) -> Float[Array, "*n p _i"]:
    """Linear weights of `count` values at 0, 1, 2 …, the outermost repeated."""
    apart = jnp.clip(at, 0, count - 1)[..., None] - jnp.arange(count)
    return jnp.maximum(1 - jnp.abs(apart), 0)


def paste(
    mask: Float[Array, "14 14"], box: Float[Array, " 4"], size: int | tuple[int, int]
) -> Bool[Array, "H W"]:
    """The pixels whose centre lies in the box and where the mask, bilinear between its values, is at least 0.5.

    `size` is height and width of the picture, or one number for both; the box is in its pixels.  At the box's edge
    the mask's outermost values go on, so a mask of ones fills its box.
    """
    high, wide = (size, size) if isinstance(size, int) else size
    (down, in_rows), (across, in_columns) = (
        _drawn(box[axis], box[axis + 2], pixels) for axis, pixels in ((1, high), (0, wide))
    )
    return (down @ mask @ across.T >= 0.5) & in_rows[:, None] & in_columns


def _drawn(low: Array, high: Array, pixels: int) -> tuple[Array, Array]:
    """What each pixel takes of the values of a mask's side, and whether it lies in the box."""
    middle = jnp.arange(pixels) + 0.5
    extent = jnp.where(high > low, high - low, 1)
    return _between((middle - low) / extent * SIDE - 0.5, SIDE), (middle >= low) & (middle < high)
