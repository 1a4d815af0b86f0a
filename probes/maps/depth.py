"""Depth: metres a pixel.  Axes: b images, h w grid, k bins, H W pixels; 0 where the depth is unknown.

Output and loss are those of probe3d (El Banani et al., CVPR 2024), which has them from AdaBins (Bhat et al., CVPR
2021) and DINOv2: the expectation over bins, 10 times the scale-invariant error of Eigen, Puhrsch & Fergus (NeurIPS
2014) and half the gradient error of MegaDepth (Li & Snavely, CVPR 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes import resizing
from probes.errors import InputError
from probes.maps import cells
from probes.maps.cells import Evidence
from probes.maps.expectation import expectation
from probes.metrics import depth as metric
from probes.metrics.depth import Tally
from probes.metrics.sums import pooled

SCALE_INVARIANT, GRADIENT = 10.0, 0.5  # weights of the two terms
FORGIVEN = 0.85  # share of the mean error, that is of the scale, that is not counted
EPSILON = 1e-3  # metres, added before a logarithm
STRIDES = (1, 2, 4, 6)


class Sums(NamedTuple):
    """What adds up over images, of the errors e = ln(p + 1e-3) − ln(t + 1e-3) of valid pixels."""

    squares: Float[Array, ""]
    errors: Float[Array, ""]
    steps: Float[Array, " strides"]  # |e − e two pixels on|, down and across, where both pixels are valid
    pixels: Float[Array, " strides"]  # valid ones; the first stride is 1, so the first number counts all


@dataclass(frozen=True)
class Depth:
    """Values of `bins` lie evenly in [low, high] metres; a prediction is within them and needs no clipping."""

    bins: int = 256
    low: float = 0.001
    high: float = 10.0

    def __post_init__(self) -> None:
        """A range to choose from."""
        if self.bins < 2 or not 0 < self.low < self.high < float("inf"):
            raise InputError(
                f"{self.bins} bins from {self.low} to {self.high} came; wanted 2 or more and 0 < low < high"
            )

    @property
    def channels(self) -> int:
        """Of the head's output: a score a bin."""
        return self.bins

    def sums(
        self, raw: Float[Array, "b h w k"], target: Float[Array | np.ndarray, "b H W"], stride: int = 1
    ) -> Sums:
        """Of the pixels of a lattice; the loss's own strides then count in pixels of the lattice."""
        size = (target.shape[1], target.shape[2])
        truth = resizing.sampled(target, stride)
        known = self.valid(truth)
        predicted = expectation(raw, size, stride, (self.low, self.high))
        truth = jnp.where(known, truth, 1)
        error = jnp.where(known, jnp.log(predicted + EPSILON) - jnp.log(truth + EPSILON), 0)
        pairs = [_steps(error[:, ::each, ::each], known[:, ::each, ::each]) for each in STRIDES]
        steps, pixels = (jnp.stack(part) for part in zip(*pairs, strict=True))
        return Sums((error**2).sum(), error.sum(), steps, pixels)

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """10 · sqrt(mean e² − 0.85 (mean e)²) + 0.5 · the sum over strides of steps / pixels; 0 without a pixel.

        Means are over the valid pixels of the batch; those of a stride are the valid pixels on every so manieth
        row and column, from the first. As in probe3d a stride's steps, of both directions, are divided by its
        pixels, not by its pairs, which are a little fewer. The root has gradient 0 at 0, where all is right.
        """
        count = jnp.maximum(sums.pixels[0], 1)
        variance = sums.squares / count - FORGIVEN * (sums.errors / count) ** 2
        root = jnp.where(variance > 0, jnp.sqrt(jnp.where(variance > 0, variance, 1)), 0)
        return SCALE_INVARIANT * root + GRADIENT * (sums.steps / jnp.maximum(sums.pixels, 1)).sum()

    def predict(self, raw: Float[Array, "b h w k"], size: tuple[int, int]) -> Float[Array, "b H W"]:
        """Metres of every pixel."""
        return expectation(raw, size, 1, (self.low, self.high))

    def tally(
        self, prediction: Float[Array | np.ndarray, "b H W"], target: Float[Array | np.ndarray, "b H W"]
    ) -> Tally:
        """Sums of errors of each image."""
        found: Tally = metric.tally(prediction, target)
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image: `d1` `d2` `d3` `rmse` `abs_rel`, and with `_aligned` after the median is."""
        return metric.value(tally)

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together, under names that end in `_pooled`."""
        return pooled(metric.value(sums))

    def valid(self, target: Float[Array | np.ndarray, "*b H W"]) -> Bool[Array, "*b H W"]:
        """Where the depth is known: positive and finite."""
        return metric.valid(target)

    def ceiling(
        self, target: Float[Array | np.ndarray, "b H W"], grid: tuple[int, int]
    ) -> Float[Array, "b H W"]:
        """The mean depth of each cell, upsampled."""
        found: Array = cells.ceiling(target[..., None], self.valid(target), grid)[..., 0]
        return found

    def evidence(self, target: Float[Array | np.ndarray, "b H W"]) -> Evidence:
        """Metres and valid pixels of each place."""
        found: Evidence = cells.evidence(target[..., None], self.valid(target))
        return found

    def guess(self, evidence: Evidence) -> Float[Array, "h w"]:
        """The mean depth."""
        found: Array = cells.mean(evidence)[..., 0]
        return found


def _steps(error: Array, known: Array) -> tuple[Array, Array]:
    down = known[:, 2:] & known[:, :-2], error[:, 2:] - error[:, :-2]
    across = known[:, :, 2:] & known[:, :, :-2], error[:, :, 2:] - error[:, :, :-2]
    total = sum(jnp.where(both, jnp.abs(step), 0).sum() for both, step in (down, across))
    return jnp.asarray(total), known.sum(dtype=error.dtype)
