"""Features seen along the axes of their own covariance: one decomposition serves every l2.

Axes: n samples, d feature dims, r = min(n, d) axes.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from probes.masks import shares


class Eigenbasis(NamedTuple):
    """Centred `rows` in a basis in which their covariance is the diagonal `values`."""

    rows: Float[Array, "n r"]  # zeros where masked
    values: Float[Array, " r"]
    basis: Float[Array, "d r"]
    mean: Float[Array, " d"]
    share: Float[Array, " n"]  # of each row in a mean


def eigenbasis(features: Float[Array, "n d"], mask: Bool[Array, " n"] | None) -> Eigenbasis:
    """Turn `features` into their eigenbasis; with fewer rows than dims it has only as many axes as rows."""
    share = shares(mask, features)
    if mask is not None:
        features = jnp.where(mask[:, None], features, 0)
    mean = share @ features
    mean += share @ (features - mean)  # a large offset costs no digits
    centred = jnp.where(share[:, None] > 0, features - mean, 0)
    if len(features) < features.shape[1]:
        left, singular, right = jnp.linalg.svd(centred, full_matrices=False)
        return Eigenbasis(left * singular, singular**2 * share.max(), right.T, mean, share)
    values, basis = jnp.linalg.eigh((centred * share[:, None]).T @ centred)
    return Eigenbasis(centred @ basis, jnp.maximum(values, 0), basis, mean, share)
