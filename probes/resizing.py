"""Bilinear resizing as two small matrix products.  Axes: b images, h w grid, c channels, H W output.

Pixel centres lie at half-integers, edges are replicated: what PyTorch calls `align_corners=False`, without
antialiasing.  As matrices it runs on the same units as the head does, and a row of pixels can be had alone.
"""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num


@lru_cache(maxsize=64)
def weights(out: int, into: int, stride: int = 1) -> Float[np.ndarray, "o i"]:
    """What each of `out` pixels takes of each of `into` cells; with a `stride` only the pixels of `lattice`."""
    return at((lattice(out, stride) + 0.5) * into / out - 0.5, into)


def at(positions: Float[np.ndarray, " o"], into: int) -> Float[np.ndarray, "o i"]:
    """The same for pixels whose centres lie at `positions`, counted in cells from the centre of the first."""
    place = np.clip(positions, 0, into - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, into - 1)
    table = np.zeros((len(place), into), np.float32)
    rows = np.arange(len(place))
    np.add.at(table, (rows, low), 1 - (place - low))
    np.add.at(table, (rows, high), place - low)
    table.setflags(write=False)
    return table


def lattice(out: int, stride: int) -> np.ndarray:
    """Every `stride`-th of `out` pixels, as near the middle of its block as a pixel is."""
    return np.arange((stride - 1) // 2, out, stride)


def sampled(maps: Num[np.ndarray | Array, "b H W *c"], stride: int) -> Num[np.ndarray | Array, "b h w *c"]:
    """The pixels of a lattice, of maps that are there already."""
    rows, columns = (lattice(side, stride) for side in maps.shape[1:3])
    return maps[:, rows][:, :, columns]


def upsample(
    maps: Float[np.ndarray | Array, "*b h w c"], size: tuple[int, int], *, stride: int = 1
) -> Float[Array, "*b c H W"]:
    """Maps at `size`, or of it the pixels of a lattice; channels come first, which is how pixels are fast."""
    high, wide = maps.shape[-3:-1]
    tall = jnp.einsum("...ijc,Wj->...ciW", maps, jnp.asarray(weights(size[1], wide, stride)))
    return jnp.einsum("...ciW,Hi->...cHW", tall, jnp.asarray(weights(size[0], high, stride)))


@lru_cache(maxsize=64)
def average(into: int, out: int) -> Float[np.ndarray, "i o"]:
    """What each of `into` cells takes of each of `out` pixels: the mean of those that lie in it, by area."""
    edges = np.arange(into + 1) * out / into
    pixels = np.arange(out)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    table: np.ndarray = (np.clip(overlap, 0, None) * into / out).astype(np.float32)
    table.setflags(write=False)
    return table
