"""What multinomial logistic regression minimises, and what is known of its curvature.

Axes: n samples in blocks of b, d feature dims, r + 1 axes of their eigenbasis with the bias, c classes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from probes.eigenbasis import eigenbasis
from probes.scaling import raised

BLOCK = 1024  # rows at a time: a block and its logits stay in the cache between the two products


class Problem(NamedTuple):
    """Rows in their eigenbasis, in blocks of b; r axes and one for the bias."""

    rows: Array  # blocks, b, r + 1: the last is 1 for the bias
    labels: Array  # blocks, b
    share: Array  # blocks, b
    values: Array  # r + 1: mean square of each column
    penalised: Array  # r + 1: 1, but 0 for the bias
    gradient: Array  # c, r + 1: at zero, the same for every l2
    basis: Array  # d, r
    mean: Array  # d


def make(features: Array, labels: Array, num_classes: int, mask: Array | None) -> Problem:
    """The problem of (n, d) features and (n,) labels; rows where `mask` is False weigh nothing."""
    turned = eigenbasis(raised(features), mask)
    n, r = turned.rows.shape
    blocks = -(-n // BLOCK)
    block = -(-n // blocks)

    def split(array: Array) -> Array:
        padding = [(0, blocks * block - n)] + [(0, 0)] * (array.ndim - 1)
        return jnp.pad(array, padding).reshape(blocks, block, *array.shape[1:])

    rows = jnp.concatenate([turned.rows, jnp.ones_like(turned.rows, shape=(n, 1))], axis=1)
    values = jnp.append(turned.values, 1)
    penalised = jnp.ones_like(values).at[r].set(0)
    residual = (1 / num_classes - jax.nn.one_hot(labels, num_classes, dtype=rows.dtype)) * turned.share[
        :, None
    ]
    return Problem(
        split(rows),
        split(labels),
        split(turned.share),
        values,
        penalised,
        residual.T @ rows,
        turned.basis,
        turned.mean,
    )


def value_and_grad(problem: Problem, penalty: Array, point: Array) -> tuple[Array, Array]:
    """Value and gradient, a block of rows at a time: the logits of all rows are never held."""

    def add(
        total: tuple[Array, Array], block: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        rows, labels, share = block
        logits = point @ rows.T  # classes first: stacked settings are then one wide matrix
        true = labels == jnp.arange(len(point))[:, None]
        # Relative to the true class: a loss and a residual near 0 then keep all their digits.
        ahead = jnp.where(true, -jnp.inf, logits - jnp.where(true, logits, 0).sum(0))
        furthest = jnp.maximum(ahead.max(0), 0)
        odds = jnp.exp(ahead - furthest)
        others = odds.sum(0)
        value = share @ (furthest + jnp.log1p(others + jnp.expm1(-furthest)))
        residual = jnp.where(true, -others, odds) * (share / (others + jnp.exp(-furthest)))
        return (total[0] + value, total[1] + residual @ rows), None

    zero = jnp.zeros((), point.dtype), jnp.zeros_like(point)
    (value, gradient), _ = jax.lax.scan(add, zero, (problem.rows, problem.labels, problem.share))
    return value + jnp.vdot(penalty * point, point) / 2, gradient + penalty * point


def spread(problem: Problem, point: Array) -> Array:
    """Mean of p * (1 - p) over rows and classes: how much curvature cross-entropy has left at `point`."""

    def add(total: Array, block: tuple[Array, Array]) -> tuple[Array, None]:
        rows, share = block
        chances = jax.nn.softmax(point @ rows.T, axis=0)
        return total + share @ (chances * (1 - chances)).mean(0), None

    return jax.lax.scan(add, jnp.zeros((), point.dtype), (problem.rows, problem.share))[0]
