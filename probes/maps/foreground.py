"""Foreground or background a pixel (generic segmentation).  Axes: b images, h w grid, H W pixels.

Targets are 1 for foreground, 0 for background and 255 where nobody said.  Binary cross-entropy over valid pixels, of
logits that are upsampled before the sigmoid.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer

from probes import resizing
from probes.maps import cells
from probes.maps.cells import Evidence
from probes.maps.sums import Sums
from probes.metrics import foreground as metric
from probes.metrics.foreground import Tally
from probes.metrics.sums import pooled


@dataclass(frozen=True)
class Foreground:
    """Its metrics are those of `probes.metrics.foreground`: `iou` above all."""

    @property
    def channels(self) -> int:
        """Of the head's output: one logit."""
        return 1

    def sums(self, raw: Float[Array, "b h w 1"], target: Integer[Array, "b H W"], stride: int = 1) -> Sums:
        """The cross-entropy of the pixels of a lattice, and how many are valid."""
        size = target.shape[1], target.shape[2]
        logits, true = resizing.upsample(raw, size, stride=stride)[:, 0], resizing.sampled(target, stride)
        valid = metric.valid(true)
        losses = jax.nn.softplus(logits) - jnp.where(true == 1, logits, 0)
        return Sums(jnp.where(valid, losses, 0).sum(), valid.sum(dtype=jnp.float32))

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """The mean over valid pixels; 0 where there is none."""
        return sums.mean

    def predict(self, raw: Float[Array, "b h w 1"], size: tuple[int, int]) -> Float[Array, "b H W"]:
        """The probability of foreground."""
        return jax.nn.sigmoid(resizing.upsample(raw, size)[:, 0])

    def tally(
        self,
        prediction: Float[np.ndarray | Array, "#b #H #W"],
        target: Integer[np.ndarray | Array, "b H W"],
    ) -> Tally:
        """Counts of each image."""
        found: Tally = metric.tally(prediction, target)
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image; NaN where it has no valid pixel."""
        return metric.value(tally)

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together."""
        return pooled(metric.value(sums))

    def valid(self, target: Integer[np.ndarray | Array, "*b H W"]) -> Bool[np.ndarray | Array, "*b H W"]:
        """Where somebody said what it is."""
        return metric.valid(target)

    def ceiling(self, target: Integer[Array, "b H W"], grid: tuple[int, int]) -> Float[Array, "b H W"]:
        """The share of foreground of each cell, upsampled."""
        found: Array = cells.ceiling(_share(target), jnp.asarray(metric.valid(target)), grid)[..., 0]
        return found

    def evidence(self, target: Integer[Array, "b H W"]) -> Evidence:
        """How often there is foreground at each place."""
        found: Evidence = cells.evidence(_share(target), jnp.asarray(metric.valid(target)))
        return found

    def guess(self, evidence: Evidence) -> Float[Array, "H W"]:
        """How likely foreground is at each place, whatever the picture; mostly it says background everywhere."""
        found: Array = cells.mean(evidence)[..., 0]
        return found

    def background(self, size: tuple[int, int]) -> Float[Array, "1 H W"]:
        """No foreground at all: the prediction that a probe's accuracy has to be compared with."""
        return jnp.zeros((1, *size))


def _share(target: Integer[Array, "b H W"]) -> Float[Array, "b H W 1"]:
    """Of foreground in each pixel."""
    return (target == 1).astype(jnp.float32)[..., None]
