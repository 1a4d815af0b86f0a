"""Boxes as numbers: areas, overlaps, and boxes as cells tell them.  Axes: h w grid; a box is x0, y0, x1, y1.

Everything holds in any unit of length.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LARGEST = 8.0  # logarithm of the farthest that a side may lie, in cells: about 3,000


def area(boxes: Float[Array, "*n 4"]) -> Float[Array, "*n"]:
    """Width times height; 0 of a box that is turned inside out."""
    return _rectangle(*_sides(boxes))


def iou(boxes: Float[Array, "*#n 4"], others: Float[Array, "*#n 4"]) -> Float[Array, "*_n"]:
    """Intersection over union; of two boxes without an area 0."""
    shared, union = _shared_and_union(boxes, others)
    return _ratio(shared, union)


def giou(boxes: Float[Array, "*#n 4"], others: Float[Array, "*#n 4"]) -> Float[Array, "*_n"]:
    """Generalised intersection over union, from −1 to 1 (Rezatofighi and others, CVPR 2019).

    The overlap less the share of the smallest box around both that neither covers, so that boxes apart from each other
    know which way to go.
    """
    (x0, y0, x1, y1), (u0, v0, u1, v1) = _sides(boxes), _sides(others)
    shared, union = _shared_and_union(boxes, others)
    low = jnp.minimum(x0, u0), jnp.minimum(y0, v0)
    around = _rectangle(*low, jnp.maximum(x1, u1), jnp.maximum(y1, v1))
    return _ratio(shared, union) - _ratio(around - union, around)


def _sides(boxes: Array) -> tuple[Array, Array, Array, Array]:
    return boxes[..., 0], boxes[..., 1], boxes[..., 2], boxes[..., 3]


def _rectangle(x0: Array, y0: Array, x1: Array, y1: Array) -> Array:
    return jnp.maximum(x1 - x0, 0) * jnp.maximum(y1 - y0, 0)


def _shared_and_union(boxes: Array, others: Array) -> tuple[Array, Array]:
    (x0, y0, x1, y1), (u0, v0, u1, v1) = _sides(boxes), _sides(others)
    low = jnp.maximum(x0, u0), jnp.maximum(y0, v0)
    shared = _rectangle(*low, jnp.minimum(x1, u1), jnp.minimum(y1, v1))
    return shared, area(boxes) + area(others) - shared


def _ratio(part: Array, whole: Array) -> Array:
    """0 where the whole is nothing, and without a gradient there."""
    some = whole > 0
    return jnp.where(some, part / jnp.where(some, whole, 1), 0)


def strides(grid: tuple[int, int], size: float | int) -> Float[np.ndarray, " 2"]:
    """Width and height of a cell, where the frame is `size` wide and high."""
    high, wide = grid
    return np.array([size / wide, size / high], np.float32)


def centres(grid: tuple[int, int], size: float | int) -> Float[np.ndarray, "h w 2"]:
    """x and y of the midst of each cell."""
    high, wide = grid
    across, down = ((np.arange(side) + 0.5) * (size / side) for side in (wide, high))
    return np.stack(np.meshgrid(across, down), -1).astype(np.float32)


def around(log_distances: Float[Array, "*b h w 4"], size: float | int) -> Float[Array, "*b h w 4"]:
    """The boxes that cells tell: how far left, up, right and down of the centre, in cells, as logarithms.

    Beyond 8 a logarithm counts as 8, so that none grows past what float32 can hold.
    """
    grid = log_distances.shape[-3], log_distances.shape[-2]
    reach = jnp.exp(jnp.minimum(log_distances, LARGEST)) * np.tile(strides(grid, size), 2)
    middle = centres(grid, size)
    return jnp.concatenate([middle - reach[..., :2], middle + reach[..., 2:]], -1)
