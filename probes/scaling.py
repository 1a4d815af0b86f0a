"""Standardisation: zero mean and unit variance in every dimension, as the training rows have them.

Axes: n samples, d feature dims. Learn it on the training rows and apply it to all others; then the unit in
which a backbone gives its features no longer matters to a regularised probe.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Num

from probes.masks import shares


class Scaling(NamedTuple):
    """What is subtracted, and what the rest is divided by."""

    mean: Float[Array, " d"]
    scale: Float[Array, " d"]


def raised(features: Num[Array, "*n d"]) -> Float[Array, "*n d"]:
    """Features in the precision in which probes compute: float32, or float64 where it came."""
    return features.astype(jnp.promote_types(features.dtype, jnp.float32))


@partial(jax.jit, static_argnames=("ddof", "floor"))
def fit(
    features: Num[Array, "n d"],
    *,
    mask: Bool[Array, " n"] | None = None,
    ddof: int = 0,
    floor: float | None = None,
) -> Scaling:
    """Mean and standard deviation of the rows in `mask`; a constant column gets scale 1, so it becomes zeros.

    The mean is corrected by a second pass, so that a large common offset costs no digits. Older protocols
    divide by n - `ddof` and raise small deviations to a `floor`; then a constant column is no special case.
    """
    features = raised(features)
    share = shares(mask, features)
    if mask is not None:
        features = jnp.where(mask[:, None], features, 0)
    mean = share @ features
    mean += share @ (features - mean)
    variance = share @ (features - mean) ** 2
    if ddof:
        count = 1 / share.max()
        variance *= count / jnp.maximum(count - ddof, 1)
    scale = jnp.sqrt(variance)
    if floor is not None:
        return Scaling(mean, jnp.maximum(scale, floor))
    rounding = 8 * jnp.finfo(features.dtype).eps * jnp.abs(features).max(0)
    return Scaling(mean, jnp.where(scale > rounding, scale, 1))


@jax.jit
def apply(scaling: Scaling, features: Num[Array, "*n d"]) -> Float[Array, "*n d"]:
    """`features` in units of the training rows' standard deviation."""
    return (raised(features) - scaling.mean) / scaling.scale


@jax.jit
def standardise(
    features: Num[Array, "n d"], *others: Num[Array, "_ d"], mask: Bool[Array, " n"] | None = None
) -> tuple[Float[Array, "_ d"], ...]:
    """`features` and `others`, all by the statistics of `features`."""
    scaling = fit(features, mask=mask)
    return tuple(apply(scaling, rows) for rows in (features, *others))
