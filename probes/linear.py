"""One affine layer trained by AdamW, as the field's older probes are.  Axes: n samples, d feature dims, c classes.

Constant learning rate, decoupled weight decay on weight and bias alike, cross-entropy, weight and bias from
zero. Its result depends on the number of epochs and on the order of the batches: `logistic` has the same model
without either. AdamW: Loshchilov & Hutter, ICLR 2019 (betas 0.9 and 0.999, eps 1e-8).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, Num, UInt32

from probes.affine import cross_entropy, predict, score
from probes.scaling import raised

__all__ = ["Fit", "Hparams", "epoch_order", "fit", "predict", "score"]


class Hparams(NamedTuple):
    """What a sweep may vary: a number, or an array of them."""

    learning_rate: float | Float[Array, "*sweep"] = 1e-2
    weight_decay: float | Float[Array, "*sweep"] = 1e-4


class Fit(NamedTuple):
    """All that `predict` needs, and the mean training loss met during the last epoch."""

    weight: Float[Array, "d c"]
    bias: Float[Array, " c"]
    train_loss: Float[Array, ""]


@partial(jax.jit, static_argnames=("num_classes", "epochs", "batch_size"))
def fit(
    features: Num[Array, "n d"],
    labels: Int[Array, " n"],
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of numbers
    *,
    num_classes: int,
    key: Key[Array, ""] | UInt32[Array, "2"],
    epochs: int = 200,
    batch_size: int = 256,
    mask: Bool[Array, " n"] | None = None,
) -> Fit:
    """Minimise mean cross-entropy a batch, every row once an epoch in a new order; the last batch may be short.

    With a `mask` it sees what it would see if the other rows did not exist. vmap it over `hparams` for one wide
    computation; past some 2,000 columns (settings times classes) groups of settings are faster.
    """
    features = raised(features)
    n = len(features)
    valid = jnp.ones(n, bool) if mask is None else mask
    count = valid.sum()
    batches = -(-n // batch_size)
    optimiser = optax.adamw(hparams.learning_rate, weight_decay=hparams.weight_decay)

    def loss(params: tuple[Array, Array], rows: Array, targets: Array, counts: Array) -> tuple[Array, Array]:
        weight, bias = params
        total = jnp.where(counts, cross_entropy(rows @ weight + bias, targets), 0).sum()
        return total / jnp.maximum(counts.sum(), 1), total

    def step(state: Any, batch: tuple[Array, Array]) -> tuple[Any, Array]:
        params, moments = state
        chosen, counts = batch
        rows = jnp.where(counts[:, None], features[chosen], 0)
        gradient, total = jax.grad(loss, has_aux=True)(params, rows, labels[chosen], counts)
        updates, moved = optimiser.update(gradient, moments, params)
        taken = optax.apply_updates(params, updates), moved
        if mask is not None:  # batches behind the last valid row do not exist
            taken = jax.tree.map(partial(jnp.where, counts.any()), taken, state)
        return taken, total

    def epoch(state: Any, number: Array) -> tuple[Any, Array]:
        order = jnp.pad(epoch_order(key, number, valid), (0, batches * batch_size - n))
        counts = jnp.arange(batches * batch_size) < count
        split = order.reshape(batches, batch_size), counts.reshape(batches, batch_size)
        state, totals = jax.lax.scan(step, state, split)
        return state, totals.sum() / count

    start = (
        jnp.zeros((features.shape[1], num_classes), features.dtype),
        jnp.zeros(num_classes, features.dtype),
    )
    ((weight, bias), _), losses = jax.lax.scan(epoch, (start, optimiser.init(start)), jnp.arange(epochs))
    return Fit(weight, bias, losses[-1])


def epoch_order(
    key: Key[Array, ""] | UInt32[Array, "2"], epoch: int | Int[Array, ""], valid: Bool[Array, " n"]
) -> Int[Array, " n"]:
    """The order of rows in an epoch: the valid ones shuffled, then the others."""
    noise = jax.random.bits(jax.random.fold_in(key, epoch), valid.shape)
    _, _, order = jax.lax.sort((~valid, noise, jnp.arange(len(valid))), num_keys=2)
    return order
