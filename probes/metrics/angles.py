"""Angles from sine and cosine, quickly."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def arctangent(sine: Float[Array, "*s"], cosine: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """`jnp.arctan2` of a sine that is not negative, in [0, π], to 3e-7: on a CPU in a ninth of its time.

    The polynomial is `atanf` of Moshier's Cephes library (1989), for |x| up to tan(π / 8).  0 at the origin, where
    its slope is not defined.
    """
    side = jnp.abs(cosine)
    low, high = jnp.minimum(sine, side), jnp.maximum(sine, side)
    steep = low > math.tan(math.pi / 8) * high
    ratio = jnp.where(steep, low - high, low) / jnp.where(steep, low + high, jnp.where(high > 0, high, 1))
    square = ratio**2
    series = (8.05374449538e-2 * square - 1.38776856032e-1) * square + 1.99777106478e-1
    octant = (series * square - 3.33329491539e-1) * square * ratio + ratio
    octant += jnp.where(steep, math.pi / 4, 0)
    quadrant = jnp.where(sine > side, math.pi / 2 - octant, octant)
    return jnp.where(cosine < 0, math.pi - quadrant, quadrant)


@arctangent.defjvp
def _slope(point: tuple[Array, Array], step: tuple[Array, Array]) -> tuple[Array, Array]:
    (sine, cosine), (up, along) = point, step
    return arctangent(sine, cosine), (cosine * up - sine * along) / (sine**2 + cosine**2)
