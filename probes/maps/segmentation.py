"""Semantic segmentation: a class a pixel.  Axes: b images, h w grid, c classes, S pixels a side.

Cross-entropy over valid pixels.  Most of the time of such a probe goes into the softmax of c full-resolution maps,
so they are never held: a strip of rows is upsampled, its loss summed and its gradient taken back to the grid at
once, while it is in cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from probes import blocks, resizing
from probes.maps.sums import Sums
from probes.metrics import segmentation as metric
from probes.metrics.segmentation import VOID, Tally

UNROLLED = 8  # strips that are written out: twice as fast as a loop, whose bodies XLA compiles less well


@dataclass(frozen=True)
class Segmentation:
    """Classes 0 … num_classes − 1; 255 is void.

    `scene_parsing` adds that benchmark's one number, the mean of pixel accuracy and mIoU (Zhou et al., CVPR 2017).
    """

    num_classes: int
    scene_parsing: bool = False

    @property
    def channels(self) -> int:
        """Of the head's output: a logit a class."""
        return self.num_classes

    def sums(
        self,
        raw: Float[np.ndarray | Array, "b h w c"],
        target: UInt8[np.ndarray | Array, "b S S"],
        stride: int = 1,
    ) -> Sums:
        """The cross-entropy of the pixels of a lattice, and how many are valid."""
        return Sums(*_cross_entropy(jnp.asarray(raw), jnp.asarray(target), stride))

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """The mean over valid pixels; 0 where there is none."""
        return sums.mean

    def predict(
        self, raw: Float[np.ndarray | Array, "b h w c"], size: tuple[int, int]
    ) -> UInt8[Array, "b H W"]:
        """The likeliest class of every pixel."""

        def one(grid: Array) -> Array:
            return resizing.upsample(grid, size).argmax(0).astype(jnp.uint8)

        found: Array = jax.lax.map(one, raw)
        return found

    def tally(self, prediction: np.ndarray | Array, target: np.ndarray | Array) -> Tally:
        """Counts a class of each image."""
        return metric.tally(np.asarray(prediction), np.asarray(target), num_classes=self.num_classes)

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image, over the classes that occur in it."""
        each = metric.value(tally)
        return {"miou_per_image": each["miou"], "pixel_acc_per_image": each["pixel_acc"]}

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together."""
        values = metric.value(sums)
        if self.scene_parsing:
            values["scene_parsing"] = (values["pixel_acc"] + values["miou"]) / 2
        return values

    def valid(self, target: UInt8[np.ndarray | Array, "*b S S"]) -> Bool[np.ndarray | Array, "*b S S"]:
        """Where there is a class."""
        return target != VOID

    def ceiling(
        self, target: UInt8[np.ndarray | Array, "b S S"], grid: tuple[int, int]
    ) -> UInt8[Array, "b S S"]:
        """The class shares of each cell, upsampled: what a grid that knew them would say."""
        size = (target.shape[1], target.shape[2])

        def one(labels: Array) -> Array:
            rows, columns = (
                jnp.asarray(resizing.average(into, out)) for into, out in zip(grid, size, strict=True)
            )
            shares = jnp.einsum("Hi,Wj,HWc->ijc", rows.T, columns.T, _one_hot(labels, self.num_classes))
            return self.predict(shares[None], size)[0]

        found: Array = jax.lax.map(one, target)
        return found

    def evidence(self, target: UInt8[np.ndarray | Array, "b S S"]) -> Int[Array, "S S c"]:
        """How often each class stands at each place."""

        def add(row: Array, total: Array) -> Array:
            return total + _one_hot(jnp.asarray(target)[row], self.num_classes).astype(jnp.int32)

        counts: Array = jax.lax.fori_loop(
            0, len(target), add, jnp.zeros((*target.shape[1:], self.num_classes), jnp.int32)
        )
        return counts

    def guess(self, evidence: Int[Array, "h w c"]) -> UInt8[Array, "h w"]:
        """The most frequent class."""
        return evidence.argmax(-1).astype(jnp.uint8)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _cross_entropy(raw: Array, target: Array, stride: int) -> tuple[Array, Array]:
    loss, pixels, _ = _with_gradient(raw, target, stride)
    return loss, pixels


def _forward(raw: Array, target: Array, stride: int) -> tuple[tuple[Array, Array], Array]:
    loss, pixels, gradient = _with_gradient(raw, target, stride)
    return (loss, pixels), gradient


def _backward(stride: int, gradient: Array, cotangents: tuple[Array, Array]) -> tuple[Array, None]:
    return gradient * cotangents[0], None


_cross_entropy.defvjp(_forward, _backward)


def _with_gradient(raw: Array, target: Array, stride: int) -> tuple[Array, Array, Array]:
    """The loss, the valid pixels, and the loss's gradient with respect to `raw`, an image after the other."""
    loss, pixels, gradient = blocks.each_image(partial(_image, stride=stride), raw, target)
    return loss.sum(), pixels.sum(), gradient


def _image(raw: Array, target: Array, *, stride: int) -> tuple[Array, Array, Array]:
    high, wide, channels = raw.shape
    across = jnp.asarray(resizing.weights(target.shape[1], wide, stride))
    down = jnp.asarray(resizing.weights(target.shape[0], high, stride))
    chosen = resizing.sampled(target[None], stride)[0]
    rows, width = chosen.shape
    count = blocks.strip(rows, 4 * channels * width)
    stretched = jnp.einsum("ijc,Wj->ciW", raw, across)
    parts = down.reshape(-1, count, high), chosen.reshape(-1, count, width)
    one = partial(_strip, stretched)
    if rows // count <= UNROLLED:
        found = [one(*part) for part in zip(*parts, strict=True)]
        losses, slopes = (sum(each) for each in zip(*found, strict=True))
    else:
        losses, slopes = (each.sum(0) for each in jax.lax.map(lambda part: one(*part), parts))
    gradient = jnp.einsum("ciW,Wj->ijc", slopes, across)
    return losses, (chosen != VOID).sum().astype(raw.dtype), gradient


def _strip(stretched: Array, weights: Array, labels: Array) -> tuple[Array, Array]:
    """The loss of some rows of pixels, and its slope at the rows of the grid."""
    logits = jnp.einsum("ciW,Ri->cRW", stretched, weights)
    top = logits.max(0)
    shares = jnp.exp(logits - top)
    whole = shares.sum(0)
    true = labels == jnp.arange(len(logits), dtype=jnp.uint8)[:, None, None]
    losses = jnp.log(whole) + top - jnp.where(true, logits, 0).sum(0)
    residual = jnp.where(labels != VOID, shares / whole - true, 0)
    return jnp.where(labels != VOID, losses, 0).sum(), jnp.einsum("cRW,Ri->ciW", residual, weights)


def _one_hot(labels: Array, num_classes: int) -> Array:
    """(S, S, c) float32, zeros where void."""
    return (labels[..., None] == jnp.arange(num_classes, dtype=jnp.uint8)).astype(jnp.float32)
