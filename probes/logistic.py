"""Multinomial logistic regression, solved to its optimum.  Axes: n samples, d feature dims, c classes, s settings.

Mean cross-entropy + l2/2 * ||weight||^2, with a free bias. A convex problem: nothing is random, and where the
optimiser starts does not matter. It works in the eigenbasis of the features' covariance (r axes and one for the
bias, a column of ones), where the Hessian is nearly diagonal: h * covariance + l2, with h the mean of
p * (1 - p) at the start. Böhning (Ann. Inst. Stat. Math. 1992) bounds h by 1/2.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from probes import checks, objective, shapes, stacking
from probes.affine import predict, score
from probes.minimise import Minimum, minimise
from probes.objective import Problem

__all__ = ["C_from_l2", "Fit", "Hparams", "fit", "groups", "l2_from_C", "path", "predict", "score"]

Number = float | Array
Sweep = TypeVar("Sweep", float, np.ndarray, Array)


class Hparams(NamedTuple):
    """What a sweep may vary: a number, or an array of them."""

    l2: float | Float[Array, "*sweep"] = 1e-3


class Fit(NamedTuple):
    """All that `predict` needs, and how well the optimiser did; from `path`, with a leading axis of settings.

    `grad_norm` is the gradient's norm relative to the one at weight zero, both measured by the approximate
    inverse Hessian, so it knows no units: its square is about the share of the possible gain still missing.
    """

    weight: Float[Array, "*s d c"]
    bias: Float[Array, "*s c"]
    grad_norm: Float[Array, "*s"]
    converged: Bool[Array, "*s"]
    steps: Int[Array, "*s"]  # evaluations of the loss


def l2_from_C(C: Sweep, n: int) -> Sweep:  # noqa: N802, N803 - scikit-learn's name
    """The `l2` that means the same as scikit-learn's C on n samples; arrays of C give arrays."""
    return 1 / (n * C)


def C_from_l2(l2: Sweep, n: int) -> Sweep:  # noqa: N802 - scikit-learn's name
    """scikit-learn's C that means the same as `l2` on n samples; arrays give arrays."""
    return 1 / (n * l2)


@partial(jax.jit, static_argnames=("num_classes", "max_steps"))
def fit(
    features: Num[Array, "n d"],
    labels: Int[Array, " n"],
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of numbers
    *,
    num_classes: int,
    mask: Bool[Array, " n"] | None = None,
    max_steps: int = 2000,
    tol: float | Float[Array, ""] = 3e-6,
) -> Fit:
    """Solve one setting from zero; rows where `mask` is False do not count.

    Under a vmap over `hparams` the decomposition is still made once; memory grows with the settings, which
    `path` avoids. `tol` is relative to the gradient at zero. Below 1e-6 it wants float64 (`jax.enable_x64`).
    """
    problem = objective.make(features, labels, num_classes, mask)
    start = jnp.zeros_like(problem.gradient)
    return _restore(
        problem, _solve(problem, start, hparams.l2, objective.spread(problem, start), max_steps, tol)
    )


def path(
    features: Num[np.ndarray | Array, "n d"],
    labels: Int[np.ndarray | Array, " _n"],
    l2s: Sequence[float | int] | Num[np.ndarray | Array, " s"],
    **options: Any,
) -> Fit:
    """All `l2s` of `groups`, which has the same options, in their order."""
    indices, fits = zip(*groups(features, labels, l2s, **options), strict=True)
    order = np.argsort(np.concatenate(indices))
    return Fit(*(jnp.asarray(np.concatenate(leaf)[order]) for leaf in zip(*fits, strict=True)))


def groups(
    features: Num[np.ndarray | Array, "n d"],
    labels: Int[np.ndarray | Array, " _n"],
    l2s: Sequence[float | int] | Num[np.ndarray | Array, " s"],
    *,
    num_classes: int,
    mask: Bool[np.ndarray | Array, " _n"] | None = None,
    max_steps: int = 2000,
    tol: float = 3e-6,
    saturated: float = 0.0,
) -> Iterator[tuple[Int[np.ndarray, " g"], Fit]]:
    """Solve `l2s` from the strongest to the weakest in groups of neighbours; which ones, and their fits.

    Each group is one wide computation that starts where the one before it ended. Groups are of 16 settings at
    few classes down to 1 at many, so memory does not grow with the number of settings, and one program serves
    every list of values. Rows are padded to one of 16 sizes an octave, so it mostly serves another n as well.
    Where there are several devices each takes a group of its own.

    Once a group ends with a training loss below `saturated` times log(c), there is nothing left to gain on these
    rows: weaker settings get its last solution, with 0 `steps`. (glmnet ends its paths by the same rule, at
    0.001: Friedman, Hastie & Tibshirani, J. Stat. Softw. 2010.)
    """
    features, labels, mask = checks.check_training(features, labels, mask, num_classes)
    l2s = checks.check_positive(l2s, "l2s")

    size = shapes.bucket(len(features))
    rows = (shapes.pad(array, size) for array in (features, labels, mask))
    problem = _prepare(*rows, num_classes=num_classes)

    order = np.argsort(-l2s, kind="stable")
    shared, whole = stacking.shardings(len(l2s))
    size = _group_size(num_classes, -(-len(l2s) // shared.num_devices)) * shared.num_devices
    problem = jax.device_put(problem, whole)
    start = jax.device_put(jnp.zeros_like(problem.gradient), whole)
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        padded = np.pad(chosen, (0, size - len(chosen)), mode="edge")
        values = jax.device_put(l2s[padded].astype(start.dtype), shared)
        found, end, loss = _solve_group(problem, start, values, tol, max_steps=max_steps)
        start = jax.device_put(end, whole)
        yield chosen, _first(found, len(chosen))
        rest = order[first + size :]
        if len(rest) and float(loss) < saturated * np.log(num_classes):
            yield rest, _repeated(found, len(rest))
            return


def _first(fits: Fit, count: int) -> Fit:
    first: Fit = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], fits)
    return first


def _repeated(fits: Fit, count: int) -> Fit:
    """The last of `fits`, `count` times, solved in no step."""
    last: Fit = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[-1:], count, axis=0), fits)
    return last._replace(steps=0 * last.steps)


def _group_size(num_classes: int, settings: int) -> int:
    """Settings solved side by side: wide products, yet a warm start for all but the first."""
    limit = next(
        (size for size, classes in ((16, 4), (8, 32), (4, 150), (2, 400)) if num_classes <= classes), 1
    )
    return int(min(limit, 2 ** (settings - 1).bit_length()))


def _solve(problem: Problem, start: Array, l2: Number, spread: Array, max_steps: int, tol: Number) -> Minimum:
    """The minimum in the eigenbasis; its `norm` relative to the one at zero."""
    penalty = jnp.asarray(l2, start.dtype) * problem.penalised
    curvature = spread * problem.values + penalty
    diagonal = 1 / jnp.maximum(curvature, jnp.finfo(start.dtype).eps * curvature.max())
    unit = jnp.sqrt(jnp.vdot(problem.gradient, diagonal * problem.gradient))
    found = minimise(
        partial(objective.value_and_grad, problem, penalty),
        start,
        diagonal=diagonal,
        goal=tol * unit,
        accuracy=tol / 10,
        max_steps=max_steps,
    )
    return found._replace(norm=jnp.where(unit > 0, found.norm / unit, 0))


def _restore(problem: Problem, found: Minimum) -> Fit:
    """The solution in terms of the features as they came."""
    weight = problem.basis @ found.point[:, :-1].T
    bias = found.point[:, -1] - problem.mean @ weight
    return Fit(weight, bias, found.norm, found.converged, found.steps)


@partial(jax.jit, static_argnames="num_classes")
def _prepare(features: Array, labels: Array, mask: Array, *, num_classes: int) -> Problem:
    return objective.make(features, labels, num_classes, mask)


@partial(jax.jit, static_argnames="max_steps")
def _solve_group(
    problem: Problem, start: Array, l2s: Array, tol: Array, *, max_steps: int
) -> tuple[Fit, Array, Array]:
    """All `l2s` from one start, side by side; where the last of them ended, and its training loss."""
    spread = objective.spread(problem, start)
    found = jax.vmap(lambda l2: _solve(problem, start, l2, spread, max_steps, tol))(l2s)
    end = found.point[-1]
    loss = found.value[-1] - l2s[-1] * jnp.vdot(problem.penalised * end, end) / 2
    return jax.vmap(partial(_restore, problem))(found), end, loss
