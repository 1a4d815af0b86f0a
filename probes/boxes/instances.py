"""Instance segmentation: detection, and in each box a mask.  Axes: b images, h w grid, M objects, K detections.

A row of an object is the six numbers of detection and then 14 × 14 of its mask in its box, row by row: 0 … 1, of which
0.5 and more is the object, or −1 where nobody said.  A row of a detection is its six and then 14 × 14 probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from probes.boxes import detection
from probes.boxes.detection import Detection
from probes.boxes.masks import SIDE, roi_align
from probes.errors import InputError
from probes.metrics.box_matching import PLAIN
from probes.metrics.detection import Tally
from probes.scaling import raised

BOX = 6  # numbers before the mask
ROW = BOX + SIDE * SIDE


class Sums(NamedTuple):
    """What adds up over images."""

    detection: detection.Sums
    masks: Float[Array, ""]  # cross-entropy of objects, each the mean over its mask
    objects: Float[Array, ""]  # that have a mask


@dataclass(frozen=True)
class Instances:
    """The logits of all masks of an image are one map more, the same for every class; true boxes train it."""

    detection: Detection

    @property
    def channels(self) -> int:
        """Of the head's output: those of detection, and the map of masks."""
        return self.detection.channels + 1

    def sums(
        self,
        raw: Float[Array, "b h w _c"],
        target: Float[np.ndarray | Array, "b M 202"],
        stride: int = 1,
    ) -> Sums:
        """Of all cells and objects; those that are difficult and crowds have no part in masks either."""
        cells, maps = self._read(raw)
        target = jnp.asarray(target)
        said = roi_align(maps, target[..., :4].astype(maps.dtype), self.detection.size)
        true = target[..., BOX:].reshape(*target.shape[:2], SIDE, SIDE)
        mine = (target[..., 4] >= 0) & (target[..., 5] == PLAIN)
        known = (true >= 0) & mine[..., None, None]
        errors = jnp.where(known, jax.nn.softplus(said) - jnp.where(true >= 0.5, said, 0), 0)
        pixels = known.sum((2, 3))
        each = errors.sum((2, 3)) / jnp.maximum(pixels, 1)
        boxes = self.detection.sums(cells, target, stride)
        return Sums(boxes, each.sum(), (pixels > 0).sum(dtype=each.dtype))

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """Detection's, and the mean over objects of the cross-entropy of their masks."""
        return self.detection.loss(sums.detection) + sums.masks / jnp.maximum(sums.objects, 1)

    def predict(
        self, raw: Float[Array, "b h w _c"], size: tuple[int, int] | None = None
    ) -> Float[Array, "b K 202"]:
        """Detections, and in the box of each the probability of its object; 0 where there is no detection."""
        cells, maps = self._read(raw)
        found = self.detection.predict(cells, size)
        said = jax.nn.sigmoid(roi_align(maps, found[..., :4], self.detection.size))
        return _joined(found, said.reshape(*found.shape[:2], -1))

    def valid(self, target: Float[np.ndarray | Array, "*b M 202"]) -> Bool[np.ndarray | Array, "*b M"]:
        """Which rows hold an object, of whatever flag."""
        return self.detection.valid(target)

    def exists(self, target: Float[np.ndarray | Array, "b M 202"]) -> Bool[Array, " b"]:
        """Which images there are."""
        return self.detection.exists(target)

    def ceiling(
        self, target: Float[np.ndarray | Array, "b M 202"], grid: tuple[int, int]
    ) -> Float[Array, "b K 202"]:
        """Detection's, with true masks: what boxes of the grid and masks of 14 × 14 reach; 0 where none is known."""
        found, kept = self.detection.owned(target, grid)
        masks = jnp.take_along_axis(jnp.asarray(target)[..., BOX:], kept[..., None], axis=1)
        return _joined(found, jnp.maximum(masks, 0))

    def tally(
        self,
        prediction: Float[np.ndarray | Array, "b K 202"],
        target: Float[np.ndarray | Array, "b M 202"],
    ) -> Tally:
        """What became of the detections of each image by their boxes; masks are compared in pixels, not here."""
        return self.detection.tally(prediction[..., :BOX], target[..., :BOX])

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image there is nothing."""
        return self.detection.scores(tally)

    def value(self, tally: Tally) -> dict[str, float]:
        """Of all images, as `box_map_50` and so on."""
        return {f"box_{name}": score for name, score in self.detection.value(tally).items()}

    def _read(self, raw: Float[Array, "b h w _c"]) -> tuple[Array, Array]:
        """Channels of detection, and the map of masks."""
        if raw.shape[-1] != self.channels:
            raise InputError(
                f"a head gave {raw.shape[-1]} channels a cell; {self.detection.num_classes} classes, a box and a mask "
                f"want {self.channels}: make it with channels=task.channels"
            )
        return raw[..., :-1], raised(raw[..., -1])


def _joined(found: Float[Array, "b K 6"], masks: Float[Array, "b K 196"]) -> Float[Array, "b K 202"]:
    there = found[..., 5:] >= 0
    return jnp.concatenate([found, jnp.where(there, masks, 0)], -1)
