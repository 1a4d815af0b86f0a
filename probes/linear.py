"""One affine layer trained step by step, as older probes are.  Axes: n samples, d dims, c classes, s settings.

Cross-entropy, weight and bias from zero, decay on both; `descent` says which optimisers. The result depends on the
number of epochs and on the order of the batches: `logistic` has the same model without either.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, Num, UInt32

from probes import checks, descent, shapes, stacking
from probes.affine import predict, score
from probes.descent import Data, Hparams, Recipe, State, Step, epoch_order
from probes.errors import InputError
from probes.stacking import COLUMNS

__all__ = ["COLUMNS", "Fit", "Hparams", "epoch_order", "fit", "groups", "path", "predict", "score"]

OVERHEAD, RATE = 2e-4, 2e11  # seconds a step and operations a second, of one CPU core


class Fit(NamedTuple):
    """All that `predict` needs, and the mean loss met during the last epoch; from `path`, with an axis of settings.

    `train_loss` is not finite exactly where the training diverged.
    """

    weight: Float[Array, "*s d c"]
    bias: Float[Array, "*s c"]
    train_loss: Float[Array, "*s"]


@partial(jax.jit, static_argnames=("num_classes", "epochs", "batch_size", "optimizer", "schedule"))
def fit(
    features: Num[Array, "n d"],
    labels: Int[Array, " n"],
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of numbers
    *,
    num_classes: int,
    key: Key[Array, ""] | UInt32[Array, "2"],
    epochs: int = 200,
    batch_size: int = 256,
    optimizer: str = "adamw",
    schedule: str = "constant",
    mask: Bool[Array, " n"] | None = None,
) -> Fit:
    """Minimise mean cross-entropy a batch, every row once an epoch in a new order; the last batch may be short.

    `optimizer` is "adamw" or "sgd"; the learning rate is "constant", or falls to 0 along a "cosine", step by step.
    With a `mask` it sees what it would see if the other rows did not exist. vmap it over `hparams` for one wide
    computation; `path` does so in groups of a size that suits the machine.
    """
    recipe = descent.check(Recipe(optimizer, schedule, min(batch_size, len(features))))
    data = Data(features, labels, jnp.ones(len(features), bool) if mask is None else mask)
    count = data.mask.sum()
    steps = epochs * descent.steps_an_epoch(count, recipe)
    state = descent.start(features, num_classes, recipe, hparams)
    return _finished(descent.advance(state, data, hparams, key, 0, steps, steps, recipe), count)


def path(
    features: Num[np.ndarray | Array, "n d"],
    labels: Int[np.ndarray | Array, " _n"],
    hparams: Hparams,
    **options: Any,
) -> Fit:
    """All settings of `groups`, which has the same options, in their order."""
    found = [group for _, group in groups(features, labels, hparams, **options)]
    return Fit(*(jnp.asarray(np.concatenate(leaf)) for leaf in zip(*found, strict=True)))


def groups(
    features: Num[np.ndarray | Array, "n d"],
    labels: Int[np.ndarray | Array, " _n"],
    hparams: Hparams,
    *,
    num_classes: int,
    key: Key[Array, ""] | UInt32[Array, "2"],
    epochs: int = 200,
    batch_size: int = 256,
    optimizer: str = "adamw",
    schedule: str = "constant",
    mask: Bool[np.ndarray | Array, " _n"] | None = None,
    columns: int = COLUMNS,
    progress: Callable[[float], None] | None = None,
) -> Iterator[tuple[Int[np.ndarray, " s"], Fit]]:
    """`fit` for every setting, group by group as they are done: their places in `hparams`, and their fits.

    A group has at most `columns` settings times classes, on each device. One program a size of group serves any
    number of settings and epochs and, since rows are padded, most near numbers of rows; the batches are those of
    the rows as they came. A call of it lasts about a second at most on a CPU; `progress` is told the share done
    after each. How a grid is cut into groups and calls changes its numbers by no more than rounding.
    """
    features, labels, mask = checks.check_training(features, labels, mask, num_classes)
    if epochs < 1:
        raise InputError(f"epochs is {epochs}; training needs at least 1")
    values, size = np.stack(stacking.stacked(hparams)), shapes.bucket(len(features))
    recipe = descent.check(Recipe(optimizer, schedule, min(batch_size, size)))
    steps = epochs * descent.steps_an_epoch(int(mask.sum()), recipe)

    shared, whole = stacking.shardings(values.shape[1])
    plan = list(stacking.split(values.shape[1], columns // num_classes, shared.num_devices))
    rows = [shapes.pad(array, size) for array in (features, labels, mask)]
    data = Data(*jax.device_put(rows, whole, may_alias=False))
    start = descent.start(data.features, num_classes, recipe, Hparams())

    def train() -> Iterator[tuple[np.ndarray, Fit]]:
        done, total = 0, steps * sum(map(len, plan))
        for places in plan:
            chosen, states = jax.device_put(
                (Hparams(*values[:, places]), stacking.repeated(start, len(places))), shared
            )
            each = _steps_a_call(start, recipe, len(places) // shared.num_devices)
            for first in range(0, steps, each):
                last = min(first + each, steps)
                states = _advance(states, data, chosen, key, first, last, steps, recipe=recipe)
                jax.block_until_ready(states)
                done += (last - first) * len(places)
                if progress is not None:
                    progress(done / total)
            kept = np.unique(places)
            found = _finish(states, data.mask.sum())
            yield kept, Fit(*(jnp.asarray(np.asarray(leaf)[: len(kept)]) for leaf in found))

    return train()


def _steps_a_call(start: State, recipe: Recipe, settings: int) -> int:
    """What one CPU core does in about a second: short enough to be interrupted and to show how far it is."""
    work = 4 * recipe.batch_size * start.params[0].size * settings
    return max(1, int(1 / (OVERHEAD + work / RATE)))


@partial(jax.jit, static_argnames="recipe", donate_argnames="states")
def _advance(
    states: State,
    data: Data,
    hparams: Hparams,
    key: Array,
    first: Step,
    last: Step,
    steps: Step,
    *,
    recipe: Recipe,
) -> State:
    def one(state: State, hparams: Hparams) -> State:
        return descent.advance(state, data, hparams, key, first, last, steps, recipe)

    found: State = jax.vmap(one)(states, hparams)
    return found


@jax.jit
def _finish(states: State, count: Array) -> Fit:
    found: Fit = jax.vmap(partial(_finished, count=count))(states)
    return found


def _finished(state: State, count: Array) -> Fit:
    weight, bias = state.params
    finite = jnp.isfinite(weight).all() & jnp.isfinite(bias).all()
    return Fit(weight.T, bias, jnp.where(finite, state.total / count, jnp.nan))
