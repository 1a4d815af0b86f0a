"""Detection: boxes of objects of c classes.  Axes: b images, h w grid, M rows of objects, K detections.

Of FCOS (Tian and others, ICCV 2019, arXiv:1904.01355) remain one scale and a read-out of it: no pyramid, no tower, no
centre-ness.  The loss is (focal + 2 · Σ (1 − GIoU)) / P over the P cells of a batch that have an object.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from probes.boxes import assigning, losses
from probes.boxes.decoding import Limits, decode, nms, rows
from probes.boxes.geometry import around
from probes.errors import InputError
from probes.metrics import detection as metric
from probes.metrics.detection import Tally
from probes.scaling import raised

PRIOR = -math.log(99)  # the logit of 0.01


class Sums(NamedTuple):
    """What adds up over images."""

    classes: Float[Array, ""]  # focal losses of all cells and classes that are asked for
    boxes: Float[Array, ""]  # 1 − GIoU of the cells that have an object
    positives: Float[Array, ""]  # how many these are


@dataclass(frozen=True)
class Detection:
    """Its metrics are those of `probes.metrics.detection`: `map_50` above all.

    `size` is the side of the frame in the unit of the boxes: pixels, or 1 for shares of it.

    A head gives c class logits and four distances; it starts at nothing known, which `PRIOR` makes a probability of
    0.01, as Lin and others (ICCV 2017) start a classifier's bias.  The constant stands here and not in the head, so
    that every head serves; it is the same function with the same gradients, and weight decay draws a bias to the
    prior, not to even odds.
    """

    counts = ("classes_scored", "detections_per_image")  # among the metrics, to read the others beside

    num_classes: int
    size: int
    score_threshold: float = 0.05
    nms_iou: float = 0.5
    max_detections: int = 100
    candidates: int = 1000

    def __post_init__(self) -> None:
        """Numbers that leave something to detect."""
        for name in ("num_classes", "size", "max_detections", "candidates"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; wanted 1 or more")
        for name in ("score_threshold", "nms_iou"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}; wanted a number from 0 to 1")

    @property
    def channels(self) -> int:
        """Of the head's output: the classes, and how far a box goes left, up, right and down."""
        return self.num_classes + 4

    @property
    def limits(self) -> Limits:
        """What is made of scores."""
        return Limits(self.score_threshold, self.nms_iou, self.max_detections, self.candidates)

    def sums(
        self,
        raw: Float[Array, "b h w _c"],
        target: Float[np.ndarray | Array, "b M _r"],
        stride: int = 1,
    ) -> Sums:
        """Of all cells; a `stride`, which other tasks have for their pixels, says nothing here."""
        logits, boxes = self.read(raw)
        grid = raw.shape[1], raw.shape[2]
        asked = assigning.asked(jnp.asarray(target), grid, self.size, self.num_classes)
        mistakes = losses.focal(logits, jax.nn.one_hot(asked.label, self.num_classes, dtype=bool))
        apart = losses.apart(boxes, asked.box)
        return Sums(
            jnp.where(asked.counted, mistakes, 0).sum(),
            jnp.where(asked.positive, apart, 0).sum(),
            asked.positive.sum(dtype=logits.dtype),
        )

    def loss(self, sums: Sums) -> Float[Array, ""]:
        """By the cells that have an object, or by one where none has."""
        return (sums.classes + losses.BOXES * sums.boxes) / jnp.maximum(sums.positives, 1)

    def predict(
        self, raw: Float[Array, "b h w _c"], size: tuple[int, int] | None = None
    ) -> Float[Array, "b K 6"]:
        """Detections in the frame; a `size`, which maps are asked for at, says nothing here.

        A score is a sigmoid, and one that is not a number detects nothing.
        """
        logits, boxes = self.read(raw)
        scores = jax.nn.sigmoid(logits).reshape(len(raw), -1, self.num_classes)
        boxes = boxes.reshape(len(raw), -1, 4)
        found: Array = jax.vmap(lambda each, box: decode(each, box, self.size, self.limits))(scores, boxes)
        return found

    def read(self, raw: Float[Array, "b h w _c"]) -> tuple[Float[Array, "b h w _n"], Float[Array, "b h w 4"]]:
        """Class logits and boxes of cells."""
        if raw.shape[-1] != self.channels:
            raise InputError(
                f"a head gave {raw.shape[-1]} channels a cell; {self.num_classes} classes and a box want "
                f"{self.channels}: make it with channels=task.channels"
            )
        raw = raised(raw)
        return raw[..., : self.num_classes] + PRIOR, around(raw[..., self.num_classes :], self.size)

    def valid(self, target: Float[np.ndarray | Array, "*b M _r"]) -> Bool[np.ndarray | Array, "*b M"]:
        """Which rows hold an object, of whatever flag."""
        return target[..., 4] >= 0

    def exists(self, target: Float[np.ndarray | Array, "b M _r"]) -> Bool[Array, " b"]:
        """Which images there are; the others fill up a batch, and nothing in them counts."""
        return assigning.exists(jnp.asarray(target))

    def ceiling(
        self, target: Float[np.ndarray | Array, "b M _r"], grid: tuple[int, int]
    ) -> Float[Array, "b K 6"]:
        """Every object that has a cell, with its own box and a score of 1: no head of such a grid is asked for more.

        Suppression may still take one of two objects of a class that overlap, the later row.
        """
        return self.owned(target, grid)[0]

    def owned(
        self, target: Float[np.ndarray | Array, "b M _r"], grid: tuple[int, int]
    ) -> tuple[Float[Array, "b K 6"], Int[Array, "b K"]]:
        """The same, and the rows that the objects stand in; −1 where there are no more."""
        target = jnp.asarray(target)
        owner = assigning.asked(target, grid, self.size, self.num_classes).owner
        has = (owner.reshape(len(target), -1, 1) == jnp.arange(target.shape[1])).any(1)

        def one(objects: Array, has: Array) -> tuple[Array, Array]:
            boxes = jnp.clip(objects[:, :4], 0, self.size)
            label = jnp.where(has, objects[:, 4], -1).astype(jnp.int32)
            kept = nms(boxes, label, self.nms_iou, self.max_detections)
            return rows(boxes, jnp.ones_like(boxes[:, 0]), label, kept), kept

        found: tuple[Array, Array] = jax.vmap(one)(target, has)
        return found

    def tally(
        self,
        prediction: Float[np.ndarray | Array, "b K 6"],
        target: Float[np.ndarray | Array, "b M 6"],
    ) -> Tally:
        """What became of the detections of each image."""
        return metric.tally(np.asarray(prediction), np.asarray(target), num_classes=self.num_classes)

    def scores(self, tally: Tally) -> dict[str, np.ndarray]:
        """Of each image there is nothing: a precision is of all detections together."""
        return {}

    def value(self, tally: Tally) -> dict[str, float]:
        """Of all images."""
        return metric.value(tally)

    def weighted(self, tally: Tally, weights: np.ndarray) -> dict[str, np.ndarray]:
        """The same where image i counts `weights[b, i]` times."""
        return metric.weighted(tally, weights)

    def influence(self, tally: Tally) -> dict[str, np.ndarray]:
        """Each image's part in a metric."""
        return metric.influence(tally)
