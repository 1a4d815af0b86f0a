"""What a detector's mistakes cost, one number each."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from probes.boxes.geometry import giou

POSITIVE = 0.25  # α: the weight of what is there; what is not has the rest
BOXES = 2.0  # the weight of the boxes beside the classes


def focal(logits: Float[Array, "*n"], positive: Bool[Array, "*n"]) -> Float[Array, "*n"]:
    """Binary cross-entropy times α_t (1 − p_t)², α = 0.25: the focal loss of Lin and others (ICCV 2017, γ = 2).

    p_t is the probability of what is true, so that the many cells where plainly nothing is do not drown the few.
    """
    wrong = jnp.where(positive, -logits, logits)  # the logit of the mistake
    weight = jnp.where(positive, POSITIVE, 1 - POSITIVE)
    return weight * jax.nn.sigmoid(wrong) ** 2 * jax.nn.softplus(wrong)


def apart(said: Float[Array, "*n 4"], true: Float[Array, "*n 4"]) -> Float[Array, "*n"]:
    """1 − GIoU: 0 for the same box, less than 2 for any."""
    return 1 - giou(said, true)
