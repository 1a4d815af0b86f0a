"""What is asked of each cell.  Axes: b images, M rows of objects (`probes.boxes` says what is in them), h w grid.

A cell is asked for the object whose box its centre lies in; of several, for the smallest, since a large one has other
cells (FCOS), and of equally large ones for the first.  An object that is smaller than a cell may so go unasked, and
`Detection.ceiling` says what that costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from probes.boxes import EMPTY
from probes.boxes.geometry import area, centres, strides
from probes.metrics.box_matching import CROWD, PLAIN


class Asked(NamedTuple):
    """Of every cell."""

    owner: Int[Array, "b h w"]  # the row of its object; −1: background
    label: Int[Array, "b h w"]  # of its object; −1: background
    box: Float[
        Array, "b h w 4"
    ]  # of its object; of background a box of two cells each way, which nobody reads
    counted: Bool[Array, "b h w _c"]  # whether it is asked about a class at all

    @property
    def positive(self) -> Bool[Array, "b h w"]:
        """Whether it has an object."""
        return self.owner >= 0


def exists(target: Float[Array, "b M _r"]) -> Bool[Array, " b"]:
    """Whether there is an image: it has a row of an object of whatever kind, or says that it has none."""
    return ((target[..., 4] >= 0) | (target[..., 5] == EMPTY)).any(1)


def asked(
    target: Float[Array, "b M _r"], grid: tuple[int, int], size: float | int, num_classes: int
) -> Asked:
    """Objects and classes of the cells of a grid on a frame `size` wide and high.

    What is `difficult` is nothing: where there is nothing else, its cells are background.  In a crowd a cell is not
    asked about the crowd's class, unless an object of that class is its own; it is about all others.
    """
    target = jax.lax.stop_gradient(target)
    label = target[..., 4].astype(jnp.int32)
    flag = jnp.where(label >= 0, target[..., 5], EMPTY)
    inside = _inside(target[..., :4], grid, size)
    mine = inside & (flag == PLAIN)[:, None, None]
    owner = jnp.argmin(jnp.where(mine, area(target[..., :4])[:, None, None], jnp.inf), -1)
    owner = jnp.where(mine.any(-1), owner, -1)
    of_cell = jnp.where(owner >= 0, _taken(label, owner), -1)
    own = jax.nn.one_hot(of_cell, num_classes, dtype=bool)
    crowded = _crowded(inside & (flag == CROWD)[:, None, None], label, num_classes)
    middle, reach = centres(grid, size), strides(grid, size)
    idle = jnp.concatenate([middle - reach, middle + reach], -1)
    box = jnp.where((owner >= 0)[..., None], _taken(target[..., :4], owner), idle)
    counted = exists(target)[:, None, None, None] & (own | ~crowded)
    return Asked(owner, of_cell, box, counted)


def _inside(boxes: Float[Array, "b M 4"], grid: tuple[int, int], size: float | int) -> Bool[Array, "b h w M"]:
    """Whether a centre lies in a box, and not on its edge: a distance of nothing has no logarithm."""
    middle = jnp.asarray(centres(grid, size))
    low, high = boxes[:, None, :, :2], boxes[:, None, :, 2:]
    across = (middle[0, :, None, 0] > low[..., 0]) & (middle[0, :, None, 0] < high[..., 0])
    down = (middle[:, 0, None, 1] > low[..., 1]) & (middle[:, 0, None, 1] < high[..., 1])
    return down[:, :, None] & across[:, None]


def _crowded(
    inside: Bool[Array, "b h w M"], label: Int[Array, "b M"], num_classes: int
) -> Bool[Array, "b h w _c"]:
    classes = jax.nn.one_hot(label, num_classes)
    return jnp.einsum("bhwm,bmc->bhwc", inside.astype(classes.dtype), classes) > 0


def _taken(rows: Any, owner: Int[Array, "b h w"]) -> Any:
    """What stands in each cell's row; of background in the last, which is for the caller to replace."""
    b, h, w = owner.shape
    flat = owner.reshape(b, h * w, *[1] * (rows.ndim - 2))
    return jnp.take_along_axis(rows, flat, axis=1).reshape(b, h, w, *rows.shape[2:])
