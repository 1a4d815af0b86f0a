"""Which of two points is nearer.  Axes: b images, p pairs, H W pixels; depth 0 where unknown, any unit.

Pairs as in Chen et al., "Single-Image Depth Perception in the Wild" (NeurIPS 2016), drawn from depth maps: the same
places in every picture of one size, given by a seed, so that no image's score depends on its neighbours in a batch.
A pair counts where both depths are known and one is more than `ratio` times the other (a difference of 2 % by
default, as in Zoran et al., ICCV 2015). Scores have no unit; the lower one is nearer.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from probes.metrics import depth
from probes.metrics.sums import ratio


class Tally(NamedTuple):
    """Of each image; all of it adds over images."""

    right: Float[Array, "*b"]  # pairs in the true order; a tie is half a one
    ties: Float[Array, "*b"]
    pairs: Float[Array, "*b"]


@lru_cache(maxsize=32)
def places(size: tuple[int, int], pairs: int, seed: int) -> Int[np.ndarray, "2 p"]:
    """Pixels of a map of this size, counted along its rows, of `pairs` pairs drawn evenly."""
    drawn = np.random.default_rng(seed).integers(0, size[0] * size[1], (2, pairs))
    drawn.setflags(write=False)
    return drawn


def compared(
    target: Float[Array | np.ndarray, "b H W"], drawn: Int[np.ndarray, "2 p"], ratio: float
) -> tuple[Bool[Array, "b p"], Bool[Array, "b p"]]:
    """Which pairs count, and in which the first is nearer."""
    first, second = (jnp.asarray(target).reshape(len(target), -1)[:, place] for place in drawn)
    known = depth.valid(first) & depth.valid(second)
    apart = jnp.maximum(first, second) > ratio * jnp.minimum(first, second)
    return known & apart, first < second


@partial(jax.jit, static_argnames=("pairs", "ratio", "seed"))
def tally(
    prediction: Float[Array | np.ndarray, "b H W"],
    target: Float[Array | np.ndarray, "b H W"],
    *,
    pairs: int = 5000,
    ratio: float = 1.02,
    seed: int = 0,
) -> Tally:
    """Pairs of each image that the prediction puts in the right order."""
    drawn = places((target.shape[1], target.shape[2]), pairs, seed)
    counted, nearer = compared(target, drawn, ratio)
    first, second = (prediction.reshape(len(prediction), -1)[:, place] for place in drawn)
    tie = counted & (first == second)
    right = counted & ~tie & ((first < second) == nearer)
    right, ties, count = (each.sum(1, dtype=target.dtype) for each in (right, tie, counted))
    return Tally(right + ties / 2, ties, count)


def value(total: Tally) -> dict[str, np.ndarray]:
    """`ordinal_accuracy`, half of which a constant map has, and `tie_rate`; NaN where no pair counts."""
    count = np.asarray(total.pairs, np.float64)
    return {"ordinal_accuracy": ratio(total.right, count), "tie_rate": ratio(total.ties, count)}


def vertical(size: tuple[int, int]) -> Float[np.ndarray, "H W"]:
    """A map that looks at nothing: what is lower in the picture is nearer."""
    return np.repeat(-np.arange(size[0], dtype=np.float32)[:, None], size[1], axis=1)
