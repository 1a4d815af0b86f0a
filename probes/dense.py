"""Training a head on feature maps, step by step.  Axes: k batches, b images, h w grid, d dims, s settings, l layers.

A target is of an image whatever its task takes: a map (S, S[, c]), or rows of boxes (M, 6).

Written for one setting; stacked by vmap, the settings share every batch, so that one pass over the data trains all
of them.  AdamW (Loshchilov & Hutter, ICLR 2019), the learning rate rising linearly over the first 1.5 epochs and then
falling to 0 along half a cosine, as the dense probes of Probe3D do (El Banani et al., CVPR 2024).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, Num, UInt32

from probes.errors import InputError
from probes.scaling import Scaling, apply, raised

WARM_UP = 1.5  # epochs


class Hparams(NamedTuple):
    """What a sweep may vary: a number, or an array of them."""

    learning_rate: float | Float[np.ndarray | Array, "*sweep"] = 5e-4
    weight_decay: float | Float[np.ndarray | Array, "*sweep"] = 1e-4


class Program(NamedTuple):
    """What shapes the computation; hashable, so that each is compiled once."""

    head: Any  # a module of probes.heads
    task: Any  # of probes.maps
    stride: int = 1  # of the pixels that the loss looks at
    side_by_side: bool = (
        True  # settings under vmap; else one after the other, which suits convolutions on a CPU
    )


class Maps(NamedTuple):
    """Features of some images at each layer that the head reads, as stored; leading axes are batches."""

    grids: tuple[Num[np.ndarray | Array, "*k b _h _w _d"], ...]
    cls: tuple[Num[np.ndarray | Array, "*k b _d"], ...] | None = None


class State(NamedTuple):
    """Where a training stands between two steps."""

    params: Any
    moments: Any
    loss: Float[Array, "*s"]  # summed over the steps of the epoch so far


class Fit(NamedTuple):
    """A head for each of s settings, as `predict` takes them, and how well it came to fit."""

    params: Any  # every leaf with a leading axis of settings
    train_loss: Float[Array, " s"]  # mean over the steps of the last epoch; not finite where it diverged


@partial(jax.jit, static_argnames=("head", "task", "batch_size", "stride", "side_by_side"))
def fit(
    maps: Maps,
    target: Num[np.ndarray | Array, "n ..."],
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of two numbers
    *,
    head: Any,
    task: Any,
    key: Key[Array, ""] | UInt32[Array, " 2"],
    epochs: int | Int[Array, ""] = 10,
    batch_size: int = 8,
    stride: int = 1,
    scaling: tuple[Scaling, ...] | None = None,
    side_by_side: bool = True,
) -> Fit:
    """Train `head` (a module of `probes.heads`) on n images that are in memory, one scan an epoch.

    `maps` are (n, h, w, d) grids, one a layer that the head reads, of any precision: `Maps((grid,))`.  `target` are
    maps as `task` (of `probes.maps`) takes them: labels (n, S, S) uint8 with 255 where there is none, depth (n, S, S)
    with 0, normals (n, S, S, 3) with zero vectors, responses (n, S, S) with −1.  The loss looks at every `stride`-th
    row and column of their pixels.  With `scaling`, one a layer, as `scaling.fit` finds it for the rows of
    `grid.reshape(-1, d)`, grids are standardised batch by batch.

    A sweep is `hparams` of arrays (s,): all settings start alike and see the same batches, so one pass trains them,
    and it is compiled once for any s values.  Numbers are a sweep of one.  Of the two halves of `split(key)` the
    first starts the head, and the second orders the images: epoch e takes them as
    `permutation(fold_in(second, e), n)`.  (`visbench` draws its orders with numpy, since it reads what no memory
    holds; so its fits are other draws of the same thing.)  A last batch that is short stays short.

    An epoch holds a second copy of maps and target, in its order.  Nothing is looked at beyond shapes: labels out of
    range or values that are not finite are for the caller to refuse, and a setting that diverges says so by its
    `train_loss`.
    """
    n = len(target)
    _check_rows(maps, n, batch_size)
    steps = -(-n // batch_size)
    program = Program(head, task, stride, side_by_side)
    start, second = jax.random.split(key)
    hparams = Hparams(*jnp.broadcast_arrays(*map(jnp.atleast_1d, hparams)))
    void = _void(task, target)

    def batches(rows: Array, fill: Any, each: np.ndarray | Array) -> Array:
        taken = jnp.take(jnp.asarray(each), rows, axis=0, mode="fill", fill_value=fill)
        return taken.reshape(steps, batch_size, *each.shape[1:])

    def epoch(number: Array, states: State) -> State:
        order = jax.random.permutation(jax.random.fold_in(second, number), n)
        rows = jnp.pad(order, (0, steps * batch_size - n), constant_values=n)  # beyond the last: void
        ordered = jax.tree.map(partial(batches, rows, 0), maps)
        truth = batches(rows, void, target)
        taken = number * steps
        counts = steps, (steps, steps * epochs)
        done: State = advance(states, ordered, truth, hparams, scaling, taken, *counts, program=program)
        return done

    states = init(jax.tree.map(lambda each: each[:1], maps), hparams, key=start, program=program)
    trained: State = jax.lax.fori_loop(0, epochs, epoch, states)
    return Fit(trained.params, trained.loss / steps)


@partial(jax.jit, static_argnames="program")
def init(
    maps: Maps,
    hparams: Hparams,
    *,
    key: Key[Array, ""] | UInt32[Array, " 2"],
    program: Program,
) -> State:
    """The head's first parameters, the same for every setting of `hparams`; of `maps` only the shapes matter."""

    def one(hparams: Hparams) -> State:
        params = program.head.init(key, *_read(maps, None))["params"]
        return State(params, _optimiser(hparams, 0.0).init(params), jnp.zeros(()))

    started: State = jax.vmap(one)(hparams)
    return started


@partial(jax.jit, static_argnames="program", donate_argnames="states")
def advance(
    states: State,
    maps: Maps,
    target: Num[np.ndarray | Array, "k b *target"],
    hparams: Hparams,
    scaling: tuple[Scaling, ...] | None,
    first: int | Int[Array, ""],
    count: int | Int[Array, ""],
    steps: tuple[int | Int[Array, ""], int | Int[Array, ""]],
    *,
    program: Program,
) -> State:
    """The first `count` of k batches, for every setting; `first` is the number of steps taken before.

    `steps` are those of an epoch and those in all.  Images whose target is void everywhere do not exist.
    """

    def step(number: Array, states: State) -> State:
        taken = first + number
        batch = jax.tree.map(
            lambda each: jax.lax.dynamic_index_in_dim(each, number, keepdims=False), (maps, target)
        )
        read, truth = _read(batch[0], scaling), batch[1]
        share = schedule(taken, *steps)

        def one(state: State, hparams: Hparams) -> State:
            loss, gradient = jax.value_and_grad(partial(_loss, read, truth, program))(state.params)
            optimiser = _optimiser(hparams, hparams.learning_rate * share)
            updates, moments = optimiser.update(gradient, state.moments, state.params)
            total = jnp.where(taken % steps[0] == 0, 0, state.loss) + loss
            return State(optax.apply_updates(state.params, updates), moments, total)

        if program.side_by_side or jax.default_backend() != "cpu":
            stepped: State = jax.vmap(one)(states, hparams)
            return stepped
        one_by_one: State = jax.lax.map(lambda pair: one(*pair), (states, hparams))
        return one_by_one

    done: State = jax.lax.fori_loop(0, count, step, states)
    return done


@partial(jax.jit, static_argnames="program")
def raw(
    params: Any, maps: Maps, scaling: tuple[Scaling, ...] | None, *, program: Program
) -> Float[Array, "s b h w c"]:
    """What the head gives for each setting, on its own grid, before the task makes anything of it."""
    read = _read(maps, scaling)
    given: Array = jax.lax.map(lambda each: program.head.apply({"params": each}, *read), params)
    return given


@partial(jax.jit, static_argnames=("program", "size"))
def predict(
    params: Any, maps: Maps, scaling: tuple[Scaling, ...] | None, *, program: Program, size: tuple[int, int]
) -> Num[Array, "s b *said"]:
    """What each setting says of each image, at any size."""
    read = _read(maps, scaling)

    def one(params: Any) -> Array:
        predicted: Array = program.task.predict(program.head.apply({"params": params}, *read), size)
        return predicted

    predicted: Array = jax.lax.map(one, params)
    return predicted


def schedule(taken: Any, epoch: Any, steps: Any) -> Array:
    """The share of the learning rate, after `taken` of `steps` steps, so many an epoch."""
    warm = jnp.minimum(WARM_UP * epoch, steps / 2)
    fallen = (taken - warm) / jnp.maximum(steps - warm, 1)
    return jnp.where(taken < warm, taken / warm, (1 + jnp.cos(jnp.pi * fallen)) / 2)


def _check_rows(maps: Maps, n: int, batch_size: int) -> None:
    counts = [len(each) for each in (*maps.grids, *(maps.cls or ()))]
    if not n or any(count != n for count in counts):
        raise InputError(
            f"maps of {', '.join(map(str, counts))} images came for {n} targets; wanted one for one"
        )
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}; it counts images and starts at 1")


def _void(task: Any, target: Any) -> int | float:
    """The value that says nothing in a target of `task`, wherever it stands."""
    known: tuple[int | float, ...] = (255,) if jnp.issubdtype(target.dtype, jnp.integer) else (0.0, -1.0)
    with jax.ensure_compile_time_eval():
        for value in known:
            if not np.asarray(task.valid(jnp.full((1, *target.shape[1:]), value, target.dtype))).any():
                return value
    raise InputError(f"{type(task).__name__} takes no target of {target.dtype}; see the kinds of maps")


def _loss(read: tuple[Any, Any], target: Array, program: Program, params: Any) -> Array:
    raw = program.head.apply({"params": params}, *read)
    loss: Array = program.task.loss(program.task.sums(raw, target, program.stride))
    return loss


def _read(
    maps: Maps, scaling: tuple[Scaling, ...] | None
) -> tuple[tuple[Array, ...], tuple[Array, ...] | None]:
    """Grids and tokens of one batch in the precision of probes, the grids standardised."""
    grids = tuple(raised(jnp.asarray(grid)) for grid in maps.grids)
    cls = None if maps.cls is None else tuple(raised(jnp.asarray(tokens)) for tokens in maps.cls)
    if scaling is not None:
        grids = tuple(map(apply, scaling, grids))
    return grids, cls


def _optimiser(hparams: Hparams, rate: Any) -> Any:
    return optax.adamw(rate, weight_decay=hparams.weight_decay)
