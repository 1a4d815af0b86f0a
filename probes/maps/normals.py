"""Surface normals: a direction a pixel.  Axes: b images, h w grid, c channels, H W pixels; zero where unknown.

With uncertainty the head also says how sure it is: κ = elu + 1.01, and the loss is the negative log-likelihood of the
angle under the distribution of Bae, Budvytis & Cipolla (ICCV 2021), as in probe3d (El Banani et al., CVPR 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes import blocks, resizing
from probes.maps import cells
from probes.maps.cells import Evidence
from probes.metrics import normals as metric
from probes.metrics.normals import Tally
from probes.metrics.sums import pooled

LEAST_KAPPA = 0.01  # elu falls to −1
COLLAPSED = 0.02  # below it, κ · angle no longer teaches the direction
TINY = 1e-6  # length: below it a predicted vector has no direction to speak of


class Sums(NamedTuple):
    """What adds up over images."""

    loss: Float[Array, ""]
    pixels: Float[Array, ""]  # valid ones
    collapsed: Float[Array, ""]  # those of them with κ below 0.02


@dataclass(frozen=True)
class Normals:
    """Unit vectors, in the axes of the target; `uncertainty` adds κ to what the head says."""

    uncertainty: bool = True

    @property
    def channels(self) -> int:
        """Of the head's output: a vector of any length, and with uncertainty what κ is made of."""
        return 4 if self.uncertainty else 3

    def sums(
        self, raw: Float[Array, "b h w c"], target: Float[Array | np.ndarray, "b H W 3"], stride: int = 1
    ) -> Sums:
        """Of the pixels of a lattice."""
        return _likelihood(raw, target, stride, self.uncertainty)

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """Mean of ln(1 + exp(−πκ)) − ln(κ² + 1) + κ·angle over valid pixels, or of the angle (radians)."""
        return sums.loss / jnp.maximum(sums.pixels, 1)

    def kappa_share(self, sums: Sums) -> Any:
        """The share of valid pixels at which κ has collapsed: over one half, the head has given up on directions."""
        return sums.collapsed / np.maximum(sums.pixels, 1)

    def predict(self, raw: Float[Array, "b h w c"], size: tuple[int, int]) -> Float[Array, "b H W 3"]:
        """Unit vectors; zero where the head gave zero."""
        vectors = resizing.upsample(raw[..., :3], size)
        length = jnp.sqrt((vectors**2).sum(1, keepdims=True))
        return jnp.moveaxis(vectors / jnp.where(length > 0, length, 1), 1, -1)

    def tally(
        self, prediction: Float[Array | np.ndarray, "b H W 3"], target: Float[Array | np.ndarray, "b H W 3"]
    ) -> Tally:
        """Sums of errors of each image, its median and a histogram."""
        found: Tally = metric.tally(prediction, target)
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image: `mean` `median` `rmse` in degrees, `d1` `d2` `d3`; NaN without a valid pixel."""
        return {**metric.value(tally), "median": np.asarray(tally.median, np.float64)}

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together, under names that end in `_pooled`."""
        values = {**metric.value(sums), "median": metric.pooled_median(sums.histogram)}
        return pooled(values)

    def valid(self, target: Float[Array | np.ndarray, "*b H W 3"]) -> Bool[Array, "*b H W"]:
        """Where there is a normal."""
        return metric.valid(target)

    def ceiling(
        self, target: Float[Array | np.ndarray, "b H W 3"], grid: tuple[int, int]
    ) -> Float[Array, "b H W 3"]:
        """The direction of the mean normal of each cell, upsampled."""
        return _unit(cells.ceiling(target, self.valid(target), grid))

    def evidence(self, target: Float[Array | np.ndarray, "b H W 3"]) -> Evidence:
        """The sum of normals at each place, and how many."""
        found: Evidence = cells.evidence(target, self.valid(target))
        return found

    def guess(self, evidence: Evidence) -> Float[Array, "h w 3"]:
        """The direction of the mean normal."""
        return _unit(cells.mean(evidence))


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _likelihood(raw: Array, target: Array, stride: int, uncertainty: bool) -> Sums:
    one = partial(_image, stride=stride, uncertainty=uncertainty)
    loss, counts = blocks.each_image(one, raw, target)
    return Sums(loss.sum(), *counts.sum(0))


def _forward(raw: Array, target: Array, stride: int, uncertainty: bool) -> tuple[Sums, Array]:
    """With the loss's gradient, taken while an image's pixels are in cache."""
    one = jax.value_and_grad(partial(_image, stride=stride, uncertainty=uncertainty), has_aux=True)
    (loss, counts), gradient = blocks.each_image(one, raw, target)
    return Sums(loss.sum(), *counts.sum(0)), gradient


def _backward(stride: int, uncertainty: bool, gradient: Array, slopes: Sums) -> tuple[Array, None]:
    return gradient * slopes.loss, None


_likelihood.defvjp(_forward, _backward)


def _image(
    grid: Float[Array, "h w c"], truth: Float[Array, "H W 3"], *, stride: int, uncertainty: bool
) -> tuple[Float[Array, ""], Float[Array, " counts"]]:
    """The loss summed over an image's valid pixels; how many they are, and at how many of them κ has collapsed."""
    size = (truth.shape[0], truth.shape[1])
    vectors, truth = resizing.upsample(grid, size, stride=stride), resizing.sampled(truth[None], stride)[0]
    known = metric.valid(truth)
    truth = jnp.moveaxis(jnp.where(known[..., None], truth, 0), -1, 0)
    loss, collapsed = metric.angle(vectors[:3], truth, TINY), jnp.zeros_like(known)
    if uncertainty:
        kappa = jax.nn.elu(vectors[3]) + 1 + LEAST_KAPPA
        loss = jnp.log1p(jnp.exp(-math.pi * kappa)) - jnp.log1p(kappa**2) + kappa * loss
        collapsed = known & (kappa < COLLAPSED)
    counts = [part.sum(dtype=loss.dtype) for part in (known, collapsed)]
    return jnp.where(known, loss, 0).sum(), jnp.stack(counts)


def _unit(vectors: Float[Array, "*s 3"]) -> Float[Array, "*s 3"]:
    length = jnp.sqrt((vectors**2).sum(-1, keepdims=True))
    return vectors / jnp.where(length > 0, length, 1)
