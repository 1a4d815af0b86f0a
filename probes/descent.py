"""Minibatch descent of one affine layer on cross-entropy.  Axes: n samples, d feature dims, c classes, b rows a batch.

Written for one setting; stacked by vmap, the settings share every batch. Weights lie classes first: the logits of
all settings are then one wide product, and so is their gradient. Optimisers are PyTorch's: AdamW (Loshchilov &
Hutter, ICLR 2019: betas 0.9 and 0.999, eps 1e-8, decay decoupled) and SGD (momentum 0.9, no Nesterov, the decay
added to the gradient).
"""

from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, Num, UInt32

from probes.errors import InputError
from probes.scaling import raised

MOMENTUM = 0.9
Step = int | Int[Array, ""]
Count = TypeVar("Count", int, Array)


class Hparams(NamedTuple):
    """What a sweep may vary: a number, or an array of them."""

    learning_rate: float | Float[np.ndarray | Array, "*sweep"] = 1e-2
    weight_decay: float | Float[np.ndarray | Array, "*sweep"] = 1e-4


class Recipe(NamedTuple):
    """What shapes the program."""

    optimizer: str
    schedule: str
    batch_size: int


class Data(NamedTuple):
    """Rows to learn from; those where `mask` is False do not exist."""

    features: Num[Array, "n d"]
    labels: Int[Array, " n"]
    mask: Bool[Array, " n"]


class State(NamedTuple):
    """Where a descent stands between two steps."""

    params: tuple[Float[Array, "c d"], Float[Array, " c"]]
    moments: Any
    total: Float[Array, ""]  # loss summed over the epoch's rows so far


def check(recipe: Recipe) -> Recipe:
    """The recipe, if there is such an optimiser, schedule and batch."""
    for name, given, known in (
        ("optimizer", recipe.optimizer, ("adamw", "sgd")),
        ("schedule", recipe.schedule, ("constant", "cosine")),
    ):
        if given not in known:
            raise InputError(f"{name} is {given!r}; wanted {' or '.join(map(repr, known))}")
    if recipe.batch_size < 1:
        raise InputError(f"batch_size is {recipe.batch_size}; a batch needs at least 1 row")
    return recipe


def start(features: Num[Array, "n d"], num_classes: int, recipe: Recipe, hparams: Hparams) -> State:
    """Weight and bias zero."""
    like = jnp.promote_types(features.dtype, jnp.float32)
    params = jnp.zeros((num_classes, features.shape[1]), like), jnp.zeros(num_classes, like)
    return State(params, _optimiser(recipe, hparams, 0.0).init(params), jnp.zeros((), like))


def steps_an_epoch(count: Count, recipe: Recipe) -> Count:
    """Batches that `count` rows fill; the last may be short."""
    return -(-count // recipe.batch_size)


def advance(
    state: State,
    data: Data,
    hparams: Hparams,
    key: Key[Array, ""] | UInt32[Array, "2"],
    first: Step,
    last: Step,
    steps: Step,
    recipe: Recipe,
) -> State:
    """Take the steps from `first` up to `last` of `steps` in all. Where a descent is cut changes no number."""
    n, size = len(data.labels), recipe.batch_size
    count = data.mask.sum()
    batches = steps_an_epoch(count, recipe)

    def epoch(number: Array, state: State) -> State:
        order = jnp.pad(epoch_order(key, number, data.mask), (0, -n % size))

        def step(batch: Array, state: State) -> State:
            chosen = jax.lax.dynamic_slice_in_dim(order, batch * size, size)
            counts = batch * size + jnp.arange(size) < count
            rows = jnp.where(counts[:, None], raised(data.features[chosen]), 0)
            total, gradient = _loss(state.params, rows, data.labels[chosen], counts)
            rate = hparams.learning_rate * _share(recipe.schedule, number * batches + batch, steps)
            updates, moments = _optimiser(recipe, hparams, rate).update(gradient, state.moments, state.params)
            total += jnp.where(batch > 0, state.total, 0)
            return State(optax.apply_updates(state.params, updates), moments, total)

        begin, end = (jnp.clip(limit - number * batches, 0, batches) for limit in (first, last))
        stepped: State = jax.lax.fori_loop(begin, end, step, state)
        return stepped

    done: State = jax.lax.fori_loop(first // batches, -(-last // batches), epoch, state)
    return done


def epoch_order(
    key: Key[Array, ""] | UInt32[Array, "2"], epoch: int | Int[Array, ""], valid: Bool[Array, " n"]
) -> Int[Array, " n"]:
    """The order of rows in an epoch: the valid ones shuffled, then the others. Rows added at the end change it not."""
    noise = jax.random.bits(jax.random.fold_in(key, epoch), valid.shape, jnp.uint32)
    with jax.enable_x64(
        True
    ):  # invalid, noise and place in one number: five times as fast as sorting the three
        first, then, place = (part.astype(jnp.uint64) for part in (~valid, noise, jnp.arange(len(valid))))
        packed = jax.lax.sort(first << 63 | then << 31 | place, is_stable=False)
        return (packed & 0x7FFFFFFF).astype(jnp.int32)


def _loss(
    params: tuple[Array, Array], rows: Array, labels: Array, counts: Array
) -> tuple[Array, tuple[Array, Array]]:
    """Cross-entropy summed over the rows that count, and the gradient of its mean.

    Logits are relative to the last class's, which spares its share of their product.
    """
    weight, bias = params
    relative = (weight[:-1] - weight[-1]) @ rows.T + (bias[:-1] - bias[-1])[:, None]
    logits = jnp.pad(relative, ((0, 1), (0, 0)))
    top = logits.max(0)
    shares = jnp.exp(logits - top)
    whole = shares.sum(0)
    losses = jnp.log(whole) + top - jnp.take_along_axis(logits, labels[None], 0, mode="clip")[0]

    part = counts.astype(rows.dtype) / jnp.maximum(counts.sum(), 1)
    true = labels == jnp.arange(len(bias))[:, None]
    residual = shares * (part / whole) - jnp.where(true, part, 0)
    return jnp.where(counts, losses, 0).sum(), (residual @ rows, residual @ jnp.ones_like(part))


def _share(schedule: str, step: Array, steps: int | Array) -> float | Array:
    """What is left of the learning rate."""
    return 1.0 if schedule == "constant" else (1 + jnp.cos(jnp.pi * step / steps)) / 2


def _optimiser(recipe: Recipe, hparams: Hparams, rate: Any) -> Any:
    if recipe.optimizer == "adamw":
        return optax.adamw(rate, weight_decay=hparams.weight_decay)
    return optax.chain(optax.add_decayed_weights(hparams.weight_decay), optax.sgd(rate, momentum=MOMENTUM))
