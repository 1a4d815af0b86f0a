"""The pose of a second camera relative to a first, from pooled features of both images.

Axes: n images, d feature dims, p pairs, b pairs a batch, s settings.

The features of the two images, one behind the other, are normalised and pass through layers of 512, 256 and 128 with
ReLU to seven numbers: a quaternion, which is brought to length 1, and a translation (the read-out of relative pose of
Chen, Marks & Cheng 2024, arXiv:2411.17474, on NAVI, Jampani et al., NeurIPS 2023).  They normalise each dim over a
batch; here each pair is normalised by itself, so that a pair's answer depends on no other, neither in training nor
after.  Trained on the mean squared error of the seven numbers by AdamW, its rate falling to 0 along half a cosine.

Features are those of images, and pairs are places among them: what a batch needs is gathered when it is its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, Num, UInt32

from probes import checks, shapes, stacking
from probes.descent import epoch_order
from probes.errors import InputError
from probes.metrics.pose import check_poses
from probes.scaling import raised

WIDTHS = (512, 256, 128)
SETTINGS = 16  # side by side: three copies of a million weights each
EPSILON = 1e-5  # added to the variance of a pair's features, as PyTorch's LayerNorm does
PREDICTED = 1024  # pairs at a time


class Hparams(NamedTuple):
    """What a sweep may vary: a number, or an array of them."""

    learning_rate: float | Float[np.ndarray | Array, "*sweep"] = 1e-3
    weight_decay: float | Float[np.ndarray | Array, "*sweep"] = 1e-4


class Fit(NamedTuple):
    """All that `predict` needs, and the mean loss met during the last epoch; from `path`, with an axis of settings.

    `train_loss` is not finite exactly where the training diverged.
    """

    params: Any
    train_loss: Float[Array, "*s"]


class Data(NamedTuple):
    """Images, pairs of them and their poses; pairs where `mask` is False do not exist."""

    features: Num[Array, "n d"]
    members: Int[Array, "p 2"]
    target: Float[Array, "p 7"]
    mask: Bool[Array, " p"]


class State(NamedTuple):
    """Where a training stands between two epochs."""

    params: Any
    moments: Any
    total: Float[Array, "*s"]  # loss summed over the pairs of the last epoch


@partial(jax.jit, static_argnames=("batch_size",))
def fit(
    features: Num[np.ndarray | Array, "n d"],
    members: Int[np.ndarray | Array, "p 2"],
    target: Float[np.ndarray | Array, "p 7"],
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of numbers
    *,
    key: Key[Array, ""] | UInt32[Array, 2],
    epochs: int | Int[Array, ""] = 30,
    batch_size: int = 128,
    mask: Bool[np.ndarray | Array, " p"] | None = None,
) -> Fit:
    """Minimise the mean squared error of a batch of pairs, every pair once an epoch in a new order.

    `target` are relative poses, quaternions of length 1 with w ≥ 0 (`metrics.pose.canonical`).  The last batch of an
    epoch may be short.  With a `mask` it sees what it would see if the other pairs did not exist.  vmap it over
    `hparams` for a sweep in one pass: settings start alike and share every batch.  Of the two halves of `split(key)`
    the first starts the weights and the second orders the pairs.
    """
    mask = jnp.ones(len(members), bool) if mask is None else jnp.asarray(mask)
    data = Data(jnp.asarray(features), jnp.asarray(members), jnp.asarray(target), mask)
    start, order = jax.random.split(key)

    def epoch(number: Array, state: State) -> State:
        return _epoch(state, data, hparams, order, number, epochs, batch_size)

    trained: State = jax.lax.fori_loop(0, epochs, epoch, _start(start, data.features.shape[1]))
    return _finished(trained, mask.sum())


def path(
    features: Num[np.ndarray | Array, "n d"],
    members: Int[np.ndarray | Array, "_p _k"],
    target: Num[np.ndarray | Array, "_q _m"],
    hparams: Hparams,
    *,
    key: Key[Array, ""] | UInt32[Array, 2],
    epochs: int = 30,
    batch_size: int = 128,
    mask: Bool[np.ndarray | Array, " _p"] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Fit:
    """`fit` for every setting, at most 16 side by side on each device: fits with a leading axis of settings.

    Images and pairs are padded to one of a few sizes, so that near numbers of them share a program.  `progress` is told
    the share done after each epoch.  Raises `InputError` for what cannot be learnt from.
    """
    features = checks.check_features(features)
    members, target = check_pairs(members, target, len(features))
    mask = checks.check_mask(mask, len(members))
    if epochs < 1 or batch_size < 1:
        raise InputError(f"epochs is {epochs} and batch_size {batch_size}; training needs at least 1 of both")
    values, size = np.stack(stacking.stacked(hparams)), shapes.bucket(len(members))
    shared, whole = stacking.shardings(values.shape[1])
    rows = shapes.pad(features, shapes.bucket(len(features)))
    pairs = (shapes.pad(each, size) for each in (members, target.astype(np.float32), mask))
    data = Data(*jax.device_put((rows, *pairs), whole))
    start, order = jax.random.split(key)
    state, found = _start(start, features.shape[1]), []
    groups = list(stacking.split(values.shape[1], SETTINGS, shared.num_devices))
    for number, places in enumerate(groups):
        chosen, states = jax.device_put(
            (Hparams(*values[:, places]), stacking.repeated(state, len(places))), shared
        )
        for epoch in range(epochs):
            states = _advance(states, data, chosen, order, epoch, epochs, batch_size=min(batch_size, size))
            jax.block_until_ready(states)
            if progress is not None:
                progress((number + (epoch + 1) / epochs) / len(groups))
        kept = len(np.unique(places))
        found.append(
            jax.tree.map(lambda leaf, kept=kept: np.asarray(leaf)[:kept], _finish(states, data.mask))
        )
    joined: Fit = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *found)
    return joined


@jax.jit
def predict(
    fit: Fit, features: Num[np.ndarray | Array, "n d"], members: Int[np.ndarray | Array, "p 2"]
) -> Float[Array, "p 7"]:
    """The relative pose of each pair: a quaternion of length 1 with w ≥ 0, and a translation."""
    rows = jnp.asarray(features)

    def one(pair: Array) -> Array:
        pose = output(fit.params, raised(rows[pair]).reshape(1, -1))[0]
        return jnp.concatenate([jnp.where(pose[0] < 0, -pose[:4], pose[:4]), pose[4:]])

    poses: Array = jax.lax.map(one, jnp.asarray(members), batch_size=PREDICTED)
    return poses


def init(key: Key[Array, ""] | UInt32[Array, 2], dims: int) -> dict[str, Any]:
    """Weights for pairs of features of `dims` dims, drawn as PyTorch draws those of its linear layers."""
    widths = (2 * dims, *WIDTHS, 7)
    layers = []
    for number, (before, after) in enumerate(pairwise(widths)):
        one, two = jax.random.split(jax.random.fold_in(key, number))
        bound = before**-0.5
        layers.append(
            {
                "weight": jax.random.uniform(one, (before, after), minval=-bound, maxval=bound),
                "bias": jax.random.uniform(two, (after,), minval=-bound, maxval=bound),
            }
        )
    return {"norm": {"scale": jnp.ones(2 * dims), "bias": jnp.zeros(2 * dims)}, "layers": layers}


def output(params: Any, pairs: Float[Array, "b e"]) -> Float[Array, "b 7"]:
    """A quaternion of length 1, of either sign, and a translation, from the features of both images of each pair."""
    centred = pairs - pairs.mean(axis=1, keepdims=True)
    scaled = centred * jax.lax.rsqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    values = scaled * params["norm"]["scale"] + params["norm"]["bias"]
    *hidden, last = params["layers"]
    for layer in hidden:
        values = jax.nn.relu(values @ layer["weight"] + layer["bias"])
    values = values @ last["weight"] + last["bias"]
    turn = values[:, :4]
    length = jax.lax.rsqrt((turn**2).sum(axis=1, keepdims=True) + 1e-24)
    return jnp.concatenate([turn * length, values[:, 4:]], axis=1)


def loss(
    params: Any, pairs: Float[Array, "b e"], target: Float[Array, "b 7"], counts: Bool[Array, " b"]
) -> Float[Array, ""]:
    """Mean squared error over the seven numbers of the pairs that count."""
    squared = ((output(params, pairs) - target) ** 2).mean(axis=1)
    return jnp.where(counts, squared, 0).sum() / jnp.maximum(counts.sum(), 1)


def check_pairs(members: Any, target: Any, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Places (p, 2) among so many images, and a canonical pose (p, 7) for each."""
    places = check_members(members, images)
    checks.check_together(places, target, "pairs and poses")
    return places, check_poses(target)


def check_members(members: Any, images: int) -> np.ndarray:
    """(p, 2) int32 places among so many images."""
    places = np.asarray(members)
    if places.ndim != 2 or places.shape[1] != 2 or not len(places) or places.dtype.kind not in "iu":
        raise InputError(
            f"pairs have shape {places.shape} and type {places.dtype}; wanted the places of two images each"
        )
    if places.min() < 0 or places.max() >= images:
        raise InputError(
            f"pairs name the images {places.min()} to {places.max()}, but there are {images}, counted from 0"
        )
    return places.astype(np.int32)


@partial(jax.jit, static_argnames="batch_size", donate_argnames="states")
def _advance(
    states: State,
    data: Data,
    hparams: Hparams,
    order: Array,
    number: int | Array,
    epochs: int | Array,
    *,
    batch_size: int,
) -> State:
    def one(state: State, hparams: Hparams) -> State:
        return _epoch(state, data, hparams, order, number, epochs, batch_size)

    found: State = jax.vmap(one)(states, hparams)
    return found


def _epoch(
    state: State,
    data: Data,
    hparams: Hparams,
    order: Array,
    number: int | Array,
    epochs: int | Array,
    size: int,
) -> State:
    """Every pair once; written for one setting."""
    count = data.mask.sum()
    batches = -(-count // size)
    places = jnp.pad(epoch_order(order, jnp.asarray(number), data.mask), (0, -len(data.mask) % size))

    def step(batch: Array, state: State) -> State:
        chosen = jax.lax.dynamic_slice_in_dim(places, batch * size, size)
        counts = batch * size + jnp.arange(size) < count
        pairs = raised(data.features[data.members[chosen]]).reshape(size, -1)
        found, gradient = jax.value_and_grad(loss)(state.params, pairs, data.target[chosen], counts)
        fallen = (1 + jnp.cos(jnp.pi * (number * batches + batch) / (epochs * batches))) / 2
        optimiser = optax.adamw(hparams.learning_rate * fallen, weight_decay=hparams.weight_decay)
        updates, moments = optimiser.update(gradient, state.moments, state.params)
        return State(optax.apply_updates(state.params, updates), moments, state.total + found * counts.sum())

    stepped: State = jax.lax.fori_loop(0, batches, step, state._replace(total=jnp.zeros_like(state.total)))
    return stepped


@partial(jax.jit, static_argnames="dims")
def _start(key: Array, dims: int) -> State:
    params = init(key, dims)
    return State(params, optax.adamw(0.0).init(params), jnp.zeros(()))


@jax.jit
def _finish(states: State, mask: Array) -> Fit:
    found: Fit = jax.vmap(partial(_finished, count=mask.sum()))(states)
    return found


def _finished(state: State, count: Array) -> Fit:
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params)]).all()
    return Fit(state.params, jnp.where(finite, state.total / count, jnp.nan))
