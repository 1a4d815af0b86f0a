"""Which rows count. Rows are left out by a mask rather than cut off, so shapes stay and everything vmaps.

Axes: n samples, m draws or folds. A mask is True where a row counts. The draws are made on the host, by
numpy's PCG64: the same seed gives the same rows on every machine.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from probes.errors import InputError


def shares(mask: Bool[Array, " n"] | None, like: Float[Array, "n d"]) -> Float[Array, " n"]:
    """What each row of `like` weighs in a mean: 1 / (rows that count), or 0."""
    if mask is None:
        return jnp.full(len(like), 1 / len(like), like.dtype)
    return mask.astype(like.dtype) / jnp.maximum(mask.sum(), 1).astype(like.dtype)


def few_shot(
    labels: Int[np.ndarray, " n"], shots: int, *, draws: int = 1, seed: int = 0
) -> Bool[np.ndarray, "m n"]:
    """Draws of `shots` rows a class; a class with fewer rows gives all it has. Negative labels are never drawn."""
    if shots < 1:
        raise InputError(f"shots is {shots}; a draw needs at least 1 row of every class")
    order, rank = _shuffled_ranks(labels, draws, seed)
    masks = np.zeros((draws, len(labels)), bool)
    np.put_along_axis(masks, order, (rank < shots) & (labels[order] >= 0), axis=1)
    return masks


def folds(labels: Int[np.ndarray, " n"], k: int, *, seed: int = 0) -> Bool[np.ndarray, "m n"]:
    """Training masks of `k` stratified folds: every row is left out exactly once, every class evenly."""
    if not 2 <= k <= len(labels):
        raise InputError(f"{k} folds asked of {len(labels)} rows; give a number from 2 to {len(labels)}")
    order, _ = _shuffled_ranks(labels, 1, seed)
    fold = np.empty(len(labels), np.int64)
    fold[order[0]] = np.arange(len(labels)) % k  # classes lie one behind the other in this order
    return np.not_equal(fold, np.arange(k)[:, None])


def _shuffled_ranks(
    labels: Int[np.ndarray, " n"], draws: int, seed: int
) -> tuple[Int[np.ndarray, "m n"], Int[np.ndarray, "m n"]]:
    """Rows sorted by class and shuffled within it, and the place each then has in its class."""
    noise = np.random.default_rng(seed).random((draws, len(labels)))
    order = np.lexsort((noise, np.broadcast_to(labels, noise.shape)), axis=1)
    ordered = labels[order]
    first = np.searchsorted(ordered[0], ordered[0])  # the sorted labels are the same in each draw
    return order, np.broadcast_to(np.arange(len(labels)) - first, order.shape)
