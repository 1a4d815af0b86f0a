"""What most losses add up over images: the loss itself, and the pixels it was taken over."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float


class Sums(NamedTuple):
    """The loss in the task's unit, and how many pixels are valid."""

    loss: Float[Array, ""]
    pixels: Float[Array, ""]

    @property
    def mean(self) -> Float[Array, ""]:
        """Over valid pixels; 0 where there is none."""
        return self.loss / jnp.maximum(self.pixels, 1)
