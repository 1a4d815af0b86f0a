"""Boundaries that people drew.  Axes: b images, h w grid, S pixels a side.

Targets are the share of annotators, in [0, 1], who marked a pixel, and negative where unknown.  The loss is the
cross-entropy balanced between classes of Xie and Tu (HED, ICCV 2015), here with every annotator's map as a label of
its own: a pixel that a share of s marked counts s times as boundary and 1 − s times as none.  Both sides are divided
by their own weight in the batch, so that the one pixel in thirty that is boundary has as much to say as the rest.

What this class scores are pixels in the frame, for choosing settings.  ODS, OIS and AP, which forgive a small
displacement, are taken in the original picture: `probes.metrics.boundaries`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Num

from probes import resizing
from probes.maps import cells
from probes.maps.cells import Evidence

BINS = 256


class Sums(NamedTuple):
    """What adds up over images: losses in nats and weights in annotators, of boundary and of none."""

    marked_loss: Float[Array, ""]
    marked: Float[Array, ""]
    clear_loss: Float[Array, ""]
    clear: Float[Array, ""]


class Tally(NamedTuple):
    """Weights of the pixels of each image by what was predicted, in equal steps from 0 to 1; they add."""

    marked: Num[np.ndarray | Array, "*n k"]
    clear: Num[np.ndarray | Array, "*n k"]


@dataclass(frozen=True)
class Boundaries:
    """It has no settings."""

    @property
    def channels(self) -> int:
        """Of the head's output: one logit."""
        return 1

    def sums(
        self,
        raw: Float[np.ndarray | Array, "b h w 1"],
        target: Float[np.ndarray | Array, "b S S"],
        stride: int = 1,
    ) -> Sums:
        """The cross-entropy of both sides at the pixels of a lattice, and their weights."""
        size = target.shape[1], target.shape[2]

        @jax.checkpoint  # an image at a time, forth and back: what is kept for the gradient is the grid
        def one(pair: tuple[Array, Array]) -> Sums:
            grid, share = pair
            logits = resizing.upsample(grid, size, stride=stride)[0]
            marked, clear = self._weights(share)
            return Sums(
                (marked * jax.nn.softplus(-logits)).sum(),
                marked.sum(),
                (clear * jax.nn.softplus(logits)).sum(),
                clear.sum(),
            )

        each: Sums = jax.lax.map(one, (jnp.asarray(raw), jnp.asarray(resizing.sampled(target, stride))))
        return Sums(*(values.sum() for values in each))

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """The mean of both sides' means; a side without weight adds 0."""
        sides = (sums.marked_loss, sums.marked), (sums.clear_loss, sums.clear)
        marked, clear = (loss / jnp.where(weight > 0, weight, 1) for loss, weight in sides)
        return (marked + clear) / 2

    def predict(
        self, raw: Float[np.ndarray | Array, "b h w 1"], size: tuple[int, int]
    ) -> Float[Array, "b H W"]:
        """How strong a boundary is, in [0, 1]; no probability, as the sides are balanced."""
        return jax.nn.sigmoid(resizing.upsample(raw, size)[:, 0])

    def tally(
        self, prediction: Float[np.ndarray | Array, "#b #S #S"], target: Float[np.ndarray | Array, "b S S"]
    ) -> Tally:
        """Of each image; a prediction that is one for all images, rows or columns is spread over them."""
        found: Tally = _tally(prediction, target)
        return found

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image: `pixel_ap` and `pixel_f`, without forgiveness; NaN where nothing is marked."""
        return _values(tally)

    def pooled(self, sums: Tally) -> dict[str, np.ndarray]:
        """Of all pixels together."""
        return {f"{name}_pooled": value for name, value in _values(sums).items()}

    def valid(self, target: Float[np.ndarray | Array, "*b S S"]) -> Bool[np.ndarray | Array, "*b S S"]:
        """Where it is known who marked what."""
        return target >= 0

    def ceiling(
        self, target: Float[np.ndarray | Array, "b S S"], grid: tuple[int, int]
    ) -> Float[Array, "b S S"]:
        """Of the maps that a grid can hold, upsampled, the nearest to the shares in least squares.

        It is shown so that a line that all marked, running straight through cells, is about 1: a line one pixel
        wide fills only that share of a cell.  Cell means would blur it twice and fall behind a trained head.
        """
        rows, columns = (
            jnp.asarray(_projection(into, out)) for into, out in zip(grid, target.shape[1:], strict=True)
        )
        spread = max(side / cell for side, cell in zip(target.shape[1:], grid, strict=True))
        nearest = jnp.einsum("Hi,Wj,bij->bHW", rows, columns, jnp.where(target >= 0, target, 0))
        return jnp.clip(nearest * spread, 0, 1)

    def evidence(self, target: Float[np.ndarray | Array, "b S S"]) -> Evidence:
        """The shares of each place together."""
        found: Evidence = cells.evidence(jnp.asarray(target)[..., None], jnp.asarray(self.valid(target)))
        return found

    def guess(self, evidence: Evidence) -> Float[Array, "H W"]:
        """The mean share of each place, whatever the picture."""
        found: Array = cells.mean(evidence)[..., 0]
        return found

    def _weights(self, share: Float[Array, "*b S S"]) -> tuple[Array, Array]:
        """Of boundary and of none; both 0 where unknown."""
        valid = self.valid(share)
        return jnp.where(valid, share, 0), jnp.where(valid, 1 - share, 0)


@jax.jit
def _tally(prediction: Array, target: Array) -> Tally:
    place = jnp.clip(jnp.floor(jnp.broadcast_to(prediction, target.shape) * BINS), 0, BINS - 1).astype(
        jnp.int32
    )

    def one(place: Array, share: Array) -> tuple[Array, Array]:
        marked, clear = Boundaries()._weights(share)
        empty = jnp.zeros(BINS)
        return empty.at[place].add(marked), empty.at[place].add(clear)

    return Tally(*jax.vmap(one)(place, jnp.asarray(target)))


def _values(sums: Tally) -> dict[str, np.ndarray]:
    """Average precision, equal predictions at one rank, and the best F, of a vote drawn at random.

    Where annotators differ no map reaches 1: each pixel has one prediction for all of them.
    """
    marked, clear = (np.asarray(each, np.float64)[..., ::-1] for each in sums)
    found, said = marked.cumsum(-1), (marked + clear).cumsum(-1)
    total = found[..., -1:]
    precision = np.divide(found, said, out=np.zeros_like(said), where=said > 0)
    defined = total[..., 0] > 0
    scale = np.where(total > 0, total, 1)
    ap = (marked / scale * precision).sum(-1)
    f = (2 * found / np.where(said + total > 0, said + total, 1)).max(-1)
    return {"pixel_ap": np.where(defined, ap, np.nan), "pixel_f": np.where(defined, f, np.nan)}


@lru_cache(maxsize=16)
def _projection(into: int, out: int) -> Float[np.ndarray, "o o"]:
    """From `out` pixels to the nearest of what `into` cells can say, upsampled: least squares along one axis."""
    upsampled = resizing.weights(out, into).astype(np.float64)
    found: np.ndarray = (upsampled @ np.linalg.pinv(upsampled)).astype(np.float32)
    found.setflags(write=False)
    return found
