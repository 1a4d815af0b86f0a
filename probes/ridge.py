"""Ridge regression for all l2 at once.  Axes: n samples, d feature dims, t targets (or classes), s settings.

Half the mean squared error a target + l2/2 * ||weight||^2, with a free bias (data are centred). Classes become
targets of 0 and 1. scikit-learn's alpha is n * l2. One eigendecomposition of the covariance serves every l2, and
the same factors give each row's prediction by a fit that has not seen it (Allen 1974; alpha stays as it is).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from probes.affine import predict, score
from probes.eigenbasis import Eigenbasis, eigenbasis
from probes.scaling import raised

__all__ = ["Fit", "Hparams", "Path", "fit", "leave_one_out", "path", "predict", "score"]

COLUMNS = (
    160  # settings times targets side by side: a wide product is faster, until its outputs leave the cache
)
Number = float | Array
Targets = Int[Array, " n"] | Float[Array, "n t"]


class Hparams(NamedTuple):
    """What a sweep may vary: a number, or an array of them."""

    l2: float | Float[Array, "*sweep"] = 1e-3


class Fit(NamedTuple):
    """All that `predict` needs."""

    weight: Float[Array, "d t"]
    bias: Float[Array, " t"]


class Path(NamedTuple):
    """A fit for each l2, and how well it predicts the rows left out one by one."""

    weight: Float[Array, "s d t"]
    bias: Float[Array, "s t"]
    loo_error: Float[Array, " s"]  # mean squared, over rows and targets
    loo_top1: Float[Array, " s"]  # share of rows whose largest output is at their largest target


class _Factors(NamedTuple):
    turned: Eigenbasis
    targets: Array  # n, t, centred; zeros where masked
    mean: Array  # t
    products: Array  # r, t: mean of row times target


@partial(jax.jit, static_argnames="num_classes")
def fit(
    features: Num[Array, "n d"],
    targets: Targets,
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of numbers
    *,
    num_classes: int | None = None,
    mask: Bool[Array, " n"] | None = None,
) -> Fit:
    """Solve one setting; `targets` are labels where `num_classes` is given. Rows outside `mask` do not count."""
    return _solve(_factors(features, targets, num_classes, mask), hparams.l2)


@partial(jax.jit, static_argnames="num_classes")
def path(
    features: Num[Array, "n d"],
    targets: Targets,
    l2s: Float[Array, " s"],
    *,
    num_classes: int | None = None,
    mask: Bool[Array, " n"] | None = None,
) -> Path:
    """Solve all `l2s`, in their order, with leave-one-out scores; a few settings at a time, so memory is bounded."""
    factors = _factors(features, targets, num_classes, mask)

    def one(l2: Array) -> Path:
        residual = _left_out(factors, l2)
        outputs, true = factors.targets - residual, factors.targets + factors.mean
        hit = (outputs + factors.mean).argmax(1) == true.argmax(1)
        error = factors.turned.share @ (residual**2).mean(1)
        return Path(*_solve(factors, l2), error, hit.mean(where=mask))

    side = max(1, COLUMNS // factors.products.shape[1])
    found: Path = jax.lax.map(one, jnp.asarray(l2s, factors.products.dtype), batch_size=side)
    return found


@partial(jax.jit, static_argnames="num_classes")
def leave_one_out(
    features: Num[Array, "n d"],
    targets: Targets,
    hparams: Hparams = Hparams(),  # noqa: B008 - a tuple of numbers
    *,
    num_classes: int | None = None,
    mask: Bool[Array, " n"] | None = None,
) -> Float[Array, "n t"]:
    """What a fit on all other rows predicts for each row."""
    factors = _factors(features, targets, num_classes, mask)
    return factors.targets - _left_out(factors, hparams.l2) + factors.mean


def _factors(features: Array, targets: Array, num_classes: int | None, mask: Array | None) -> _Factors:
    turned = eigenbasis(raised(features), mask)
    if num_classes is not None:
        targets = jax.nn.one_hot(targets, num_classes)
    targets = targets.astype(turned.rows.dtype)
    if mask is not None:
        targets = jnp.where(mask[:, None], targets, 0)
    mean = turned.share @ targets
    centred = jnp.where(turned.share[:, None] > 0, targets - mean, 0)
    return _Factors(turned, centred, mean, (turned.rows * turned.share[:, None]).T @ centred)


def _gain(factors: _Factors, l2: Number) -> Array:
    """What each axis keeps: 1 / (variance + l2), nothing where both are zero."""
    values = factors.turned.values
    total = values + l2
    rounding = jnp.finfo(values.dtype).eps * values.max()
    return jnp.where(total > rounding, 1 / jnp.where(total > rounding, total, 1), 0)


def _solve(factors: _Factors, l2: Number) -> Fit:
    weight = factors.turned.basis @ (_gain(factors, l2)[:, None] * factors.products)
    return Fit(weight, factors.mean - factors.turned.mean @ weight)


def _left_out(factors: _Factors, l2: Number) -> Array:
    """Target minus the prediction without its row: the residual over 1 - leverage."""
    turned, gain = factors.turned, _gain(factors, l2)
    residual = factors.targets - turned.rows @ (gain[:, None] * factors.products)
    leverage = turned.share * (1 + turned.rows**2 @ gain)
    room = jnp.maximum(1 - leverage, jnp.finfo(gain.dtype).eps)
    return residual / room[:, None]
