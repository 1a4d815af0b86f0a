"""Precision over recall of detections whose images weigh as much as one likes, and what is read of it.

Axes: n images, d detections by class and there by falling score, h hits among them, c classes, B weightings.

Precision counts at the recall of each hit, and is the best that is reached there or further down.  Where weights are
0 or more, a hit never lowers it: an image of weight w so counts as w copies of it would, standing one behind the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from probes.metrics.sums import ratio

CHUNK = 2**19  # numbers held at once
ROUNDING = 1e-12  # of a recall; sums of whole weights have none


class Steps(NamedTuple):
    """The curves of a class, one a weighting."""

    hits: Float[np.ndarray, "h B"]  # what each hit weighs
    found: Float[np.ndarray, "h B"]  # and all hits down to it
    precision: Float[np.ndarray, "h B"]  # the best, there or further down
    truths: Float[np.ndarray, " B"]  # what all objects weigh
    slack: float  # how far a recall may be off


Reading = Callable[[Steps], np.ndarray]


def area(steps: Steps) -> Float[np.ndarray, " B"]:
    """Under the curve."""
    return ratio(np.einsum("hb,hb->b", steps.hits, steps.precision), steps.truths)


def recall(steps: Steps) -> Float[np.ndarray, " B"]:
    """Where the curve ends."""
    return ratio(steps.found[-1], steps.truths)


def at(recalls: Float[np.ndarray, " r"]) -> Reading:
    """The mean of the precision at evenly spaced recalls from 0 to 1; 0 at those that are not reached."""
    last = len(recalls) - 1

    def read(steps: Steps) -> np.ndarray:
        reached = steps.found / np.where(steps.truths > 0, steps.truths, 1)
        nearest = np.rint(reached * last).astype(np.int32)
        passed = (nearest + (recalls[nearest] <= reached + steps.slack)).astype(np.float64)
        passed[1:] -= passed[:-1].copy()  # with this hit, and none before
        return ratio(np.einsum("hb,hb->b", passed, steps.precision), np.where(steps.truths > 0, last + 1, 0))

    return read


class Curve:
    """The hits of every class, and what stands between them: what is behind the last of a class changes nothing."""

    def __init__(
        self,
        images: Int[np.ndarray, " d"],
        classes: Int[np.ndarray, " d"],
        hit: Bool[np.ndarray, " d"],
        truths: Int[np.ndarray, "n c"],
    ) -> None:
        from scipy.sparse import csr_array  # it has no types; slow to import

        self.truths = truths
        self.images, self.classes = images[hit], classes[hit]
        self.bounds = np.searchsorted(self.classes, np.arange(truths.shape[1] + 1))
        row = np.cumsum(hit) - hit  # the next hit, itself if it is one
        before = row < self.bounds[classes + 1]
        row, images = row[before], images[before]
        starts = np.searchsorted(row, np.arange(len(self.images) + 1))
        self._seen = csr_array((np.ones(len(row)), images, starts), shape=(len(self.images), len(truths)))

    def read(
        self, weights: Float[np.ndarray, "B n"], readings: Sequence[Reading]
    ) -> Float[np.ndarray, "r B c"]:
        """What each reading says of each class; NaN where its objects weigh nothing."""
        truths = weights @ self.truths
        found = np.where(truths > 0, np.zeros((len(readings), 1, 1)), np.nan)
        slack = 0.0 if (weights == np.rint(weights)).all() else ROUNDING
        size = max(1, CHUNK // max(len(self.images), weights.shape[1], 1))
        for start in range(0, len(weights), size):
            chunk = slice(start, start + size)
            columns = np.ascontiguousarray(weights[chunk].T)
            hits, seen = columns[self.images], self._seen @ columns
            for each in np.unique(self.classes):
                part = slice(self.bounds[each], self.bounds[each + 1])
                steps = _steps(hits[part], seen[part], truths[chunk, each], slack)
                for row, read in enumerate(readings):
                    found[row, chunk, each] = read(steps)
        return found

    def slopes(self) -> dict[Reading, Float[np.ndarray, " n"]]:
        """How `area` and `recall`, means over classes, move with the weight of each image, all being 1.

        With N objects the area is the sum over hits of P / N, where P = T / A is the best precision from there on: T
        hits among A detections down to some other hit.  An image adds to the sum with its own hits, to T and A with
        those of its hits and detections that stand above that other, and to N with its objects.
        """
        whole, n = self.truths.sum(0), len(self.truths)
        areas, recalls = np.zeros(len(whole)), ratio(np.diff(self.bounds), whole)
        gain, loss = np.zeros(len(self.images)), np.zeros(len(self.images))
        seen = np.asarray(self._seen.sum(1), np.float64)
        for each in np.unique(self.classes):
            part = slice(self.bounds[each], self.bounds[each + 1])
            above = seen[part].cumsum()
            precision = np.arange(1, len(above) + 1) / above
            best = _from_below(precision)
            (tops,) = np.nonzero(precision == best)
            served = np.zeros(len(above))
            served[tops] = np.diff(tops, prepend=-1)  # how many hits have their precision from there
            gain[part] = (best + (served / above)[::-1].cumsum()[::-1]) / whole[each]
            loss[part] = (served * precision / above)[::-1].cumsum()[::-1] / whole[each]
            areas[each] = best.sum() / whole[each]
        scored = whole > 0
        share = self.truths[:, scored] / whole[scored]
        moved = {
            area: np.bincount(self.images, gain, n) - self._seen.T @ loss - share @ areas[scored],
            recall: np.bincount(self.images, 1 / whole[self.classes], n) - share @ recalls[scored],
        }
        return {reading: slope / max(int(scored.sum()), 1) for reading, slope in moved.items()}


def _steps(hits: np.ndarray, seen: np.ndarray, truths: np.ndarray, slack: float) -> Steps:
    found, total = hits.cumsum(0), seen.cumsum(0)
    precision = np.divide(found, total, out=np.zeros_like(total), where=total > 0)
    return Steps(hits, found, _from_below(precision), truths, slack)


def _from_below(precision: Float[np.ndarray, "h ..."]) -> Float[np.ndarray, "h ..."]:
    """The best, there or further down."""
    return np.maximum.accumulate(precision[::-1], axis=0)[::-1]
