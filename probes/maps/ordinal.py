"""Relative depth: which of two points is nearer.  Axes: b images, h w grid, H W pixels; depth 0 where unknown.

The ranking loss of Chen et al., "Single-Image Depth Perception in the Wild" (NeurIPS 2016): for a pair of which the
first is nearer, ln(1 + exp(z₁ − z₂)). Depths enter by their order alone, so any unit will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes import resizing
from probes.errors import InputError
from probes.maps import cells
from probes.maps.cells import Evidence
from probes.metrics import depth
from probes.metrics import ordinal as metric
from probes.metrics.ordinal import Tally
from probes.metrics.sums import pooled


class Sums(NamedTuple):
    """What adds up over images."""

    loss: Float[Array, ""]
    pairs: Float[Array, ""]


@dataclass(frozen=True)
class Ordinal:
    """`pairs` pairs of pixels an image, at places that `seed` gives; they count where depths differ by `ratio`."""

    pairs: int = 5000
    ratio: float = 1.02
    seed: int = 0

    def __post_init__(self) -> None:
        """Pairs there are, and an order to find in them."""
        if self.pairs < 1 or not self.ratio >= 1:
            raise InputError(
                f"{self.pairs} pairs with a ratio of {self.ratio} came; wanted at least one pair, and a ratio from 1 up"
            )

    @property
    def channels(self) -> int:
        """Of the head's output: a score, lower where nearer."""
        return 1

    def sums(
        self, raw: Float[Array, "b h w 1"], target: Float[Array | np.ndarray, "b H W"], stride: int = 1
    ) -> Sums:
        """The loss of the pairs; with a stride they are drawn from the lattice's pixels."""
        size = (target.shape[1], target.shape[2])
        truth = resizing.sampled(target, stride)
        drawn = metric.places((truth.shape[1], truth.shape[2]), self.pairs, self.seed)
        counted, nearer = metric.compared(truth, drawn, self.ratio)
        scores = resizing.upsample(raw, size, stride=stride).reshape(len(raw), -1)
        ahead = scores[:, drawn[0]] - scores[:, drawn[1]]
        losses = jax.nn.softplus(jnp.where(nearer, ahead, -ahead))
        return Sums(jnp.where(counted, losses, 0).sum(), counted.sum(dtype=losses.dtype))

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """The mean over the pairs that count; 0 without one. A constant map's is ln 2."""
        return sums.loss / jnp.maximum(sums.pairs, 1)

    def predict(self, raw: Float[Array, "b h w 1"], size: tuple[int, int]) -> Float[Array, "b H W"]:
        """A score a pixel, lower where nearer, without unit."""
        return resizing.upsample(raw, size)[:, 0]

    def tally(
        self, prediction: Float[Array | np.ndarray, "b H W"], target: Float[Array | np.ndarray, "b H W"]
    ) -> Tally:
        """Pairs in order, of each image."""
        found: Tally = metric.tally(prediction, target, pairs=self.pairs, ratio=self.ratio, seed=self.seed)
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image: `ordinal_accuracy` and `tie_rate`."""
        return metric.value(tally)

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pairs together, under names that end in `_pooled`."""
        return pooled(metric.value(sums))

    def valid(self, target: Float[Array | np.ndarray, "*b H W"]) -> Bool[Array, "*b H W"]:
        """Where the depth is known."""
        return depth.valid(target)

    def ceiling(
        self, target: Float[Array | np.ndarray, "b H W"], grid: tuple[int, int]
    ) -> Float[Array, "b H W"]:
        """The mean depth of each cell, upsampled."""
        found: Array = cells.ceiling(target[..., None], self.valid(target), grid)[..., 0]
        return found

    def evidence(self, target: Float[Array | np.ndarray, "b H W"]) -> Evidence:
        """How far each place is, in the logarithm and against its picture's mean: scenes of all scales count alike."""
        known = self.valid(target)
        logs = jnp.log(jnp.where(known, target, 1))
        means = logs.sum((1, 2), keepdims=True) / jnp.maximum(known.sum((1, 2), keepdims=True), 1)
        found: Evidence = cells.evidence((logs - means)[..., None], known)
        return found

    def guess(self, evidence: Evidence) -> Float[Array, "h w"]:
        """The mean of that; of rows it is the vertical position, as the training pictures have it (lower is nearer)."""
        found: Array = cells.mean(evidence)[..., 0]
        return found
