"""The orientation of what a picture shows at a pixel.  Axes: b images, h w grid, H W pixels.

Targets are (cos 2a, sin 2a, coherence); where the coherence is 0 there is no orientation.  The head gives a vector of
which only the direction counts.  The loss is its angle to (cos 2a, sin 2a) in radians, weighted by coherence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes import resizing
from probes.metrics import orientation as metric
from probes.metrics.angles import arctangent
from probes.metrics.orientation import Tally
from probes.metrics.sums import pooled

SHORT = (
    0.01  # a vector about as short has no direction yet: its angle tends to 90°, its gradient to 1 / SHORT
)


class Sums(NamedTuple):
    """What adds up over images: coherence times angle (radians of [0, π]), and coherence."""

    loss: Float[Array, ""]
    weight: Float[Array, ""]


@dataclass(frozen=True)
class Orientation:
    """Its metrics, of which less is better, are those of `probes.metrics.orientation`."""

    @property
    def channels(self) -> int:
        """Of the head's output: a vector."""
        return 2

    def sums(self, raw: Float[Array, "b h w 2"], target: Float[Array, "b H W 3"], stride: int = 1) -> Sums:
        """Weighted angles at the pixels of a lattice, and their weight.

        The vector is taken to stand off the plane by `SHORT`, and the angle is that in space. So it has a gradient
        everywhere, at 0, at π and for a vector that vanishes between two cells of opposite directions.
        """
        size = target.shape[1], target.shape[2]
        said, true = resizing.upsample(raw, size, stride=stride), resizing.sampled(target, stride)
        cos, sin, weight = true[..., 0], true[..., 1], true[..., 2]
        along = said[:, 0] * cos + said[:, 1] * sin
        across = said[:, 1] * cos - said[:, 0] * sin
        angle = arctangent(jnp.sqrt(across**2 + SHORT**2), along)
        return Sums((weight * angle).sum(), weight.sum())

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """The weighted mean; 0 where there is no orientation."""
        return sums.loss / jnp.where(sums.weight > 0, sums.weight, 1)

    def predict(self, raw: Float[Array, "b h w 2"], size: tuple[int, int]) -> Float[Array, "b H W 2"]:
        """Unit vectors; zero where the head has no direction."""
        return _unit(jnp.moveaxis(resizing.upsample(raw, size), 1, -1))

    def tally(
        self,
        prediction: Float[np.ndarray | Array, "#b #H #W 2"],
        target: Float[np.ndarray | Array, "b H W 3"],
    ) -> Tally:
        """Statistics of each image."""
        found: Tally = metric.tally(prediction, target)
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image; NaN where a picture has no orientation anywhere."""
        return metric.value(tally)

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together."""
        return pooled(metric.pooled(sums))

    def valid(self, target: Float[np.ndarray | Array, "*b H W 3"]) -> Bool[np.ndarray | Array, "*b H W"]:
        """Where there is an orientation."""
        return target[..., 2] > 0

    def ceiling(self, target: Float[Array, "b H W 3"], grid: tuple[int, int]) -> Float[Array, "b H W 2"]:
        """The mean vector of each cell, weighted by coherence, upsampled."""
        rows, columns = (
            jnp.asarray(resizing.average(into, out))
            for into, out in zip(grid, target.shape[1:3], strict=True)
        )
        means = jnp.einsum("iH,jW,bHWk->bijk", rows, columns, _weighted(target))
        return self.predict(means, (target.shape[1], target.shape[2]))

    def evidence(self, target: Float[Array, "b H W 3"]) -> Float[Array, "H W 2"]:
        """The vectors of each place together, weighted by coherence."""
        return _weighted(target).sum(0)

    def guess(self, evidence: Float[Array, "H W 2"]) -> Float[Array, "H W 2"]:
        """Their direction; none where there was none."""
        return _unit(evidence)


def _weighted(target: Float[Array, "b H W 3"]) -> Float[Array, "b H W 2"]:
    return target[..., :2] * target[..., 2:]


def _unit(vectors: Float[Array, "*b 2"]) -> Float[Array, "*b 2"]:
    """Vectors of length 1, however short they were; zero stays zero."""
    longest = jnp.abs(vectors).max(-1, keepdims=True)
    scaled = vectors / jnp.where(
        longest > 0, longest, 1
    )  # whose square can be neither too large nor too small
    length = jnp.sqrt((scaled**2).sum(-1, keepdims=True))
    return scaled / jnp.where(length > 0, length, 1)
