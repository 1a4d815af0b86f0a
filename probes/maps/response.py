"""A response a pixel: edges, keypoints, occlusion edges, corners.  Axes: b images, h w grid, H W pixels.

Targets are 0 or more, and negative where unknown.  L1 over valid pixels.  What counts is Pearson's r an image, which
the task names, since the r of edges is not the r of corners.  It is no boundary score: nothing is thinned or matched.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes import resizing
from probes.maps import cells
from probes.maps.cells import Evidence
from probes.maps.sums import Sums
from probes.metrics import correlation as metric
from probes.metrics.correlation import Tally
from probes.metrics.sums import pooled


@dataclass(frozen=True)
class Response:
    """`correlation` is the name of its headline: "edge_correlation", "corner_correlation" and so on."""

    correlation: str

    @property
    def channels(self) -> int:
        """Of the head's output: the response itself."""
        return 1

    def sums(self, raw: Float[Array, "b h w 1"], target: Float[Array, "b H W"], stride: int = 1) -> Sums:
        """The absolute errors of the pixels of a lattice, and how many are valid."""
        size = target.shape[1], target.shape[2]
        said, true = resizing.upsample(raw, size, stride=stride)[:, 0], resizing.sampled(target, stride)
        valid = self.valid(true)
        errors = jnp.abs(said - jnp.where(valid, true, 0))
        return Sums(jnp.where(valid, errors, 0).sum(), valid.sum(dtype=jnp.float32))

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """The mean over valid pixels; 0 where there is none."""
        return sums.mean

    def predict(self, raw: Float[Array, "b h w 1"], size: tuple[int, int]) -> Float[Array, "b H W"]:
        """The response, in the target's unit."""
        return resizing.upsample(raw, size)[:, 0]

    def tally(
        self, prediction: Float[np.ndarray | Array, "#b #H #W"], target: Float[np.ndarray | Array, "b H W"]
    ) -> Tally:
        """Statistics of each image."""
        found: Tally = metric.tally(prediction, target, self.valid(target))
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image: r under its name, `rmse` and `mae`; NaN where undefined."""
        return {self.correlation: metric.correlation(tally), **metric.errors(tally)}

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together; r is an image's own."""
        return pooled(metric.errors(sums))

    def valid(self, target: Float[np.ndarray | Array, "*b H W"]) -> Bool[np.ndarray | Array, "*b H W"]:
        """Where the response is known."""
        return (target >= 0) & (target < jnp.inf)

    def ceiling(self, target: Float[Array, "b H W"], grid: tuple[int, int]) -> Float[Array, "b H W"]:
        """The mean response of each cell, upsampled."""
        found: Array = cells.ceiling(target[..., None], jnp.asarray(self.valid(target)), grid)[..., 0]
        return found

    def evidence(self, target: Float[Array, "b H W"]) -> Evidence:
        """The responses of each place together."""
        found: Evidence = cells.evidence(target[..., None], jnp.asarray(self.valid(target)))
        return found

    def guess(self, evidence: Evidence) -> Float[Array, "H W"]:
        """The mean response of each place; one for all places has no r."""
        found: Array = cells.mean(evidence)[..., 0]
        return found
