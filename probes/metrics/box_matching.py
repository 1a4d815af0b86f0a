"""Which detections find an object, image by image, by the rules of PASCAL VOC and of COCO.

Axes: n images, k detections, m objects, t thresholds.  All that is asked of a detection and an object is how far they
overlap, so boxes and masks are served alike.  Either rule looks at one class after the other, and there at the
detections by falling score; of equal scores the row that stands first comes first.

- VOC (Everingham, Van Gool, Williams, Winn and Zisserman, IJCV 2010): a detection means the object it overlaps most.
  Where that is enough, it is a hit if it is the first to mean this object, and a miss if not; what means a
  `difficult` object is ignored.  VOC knows no crowds; here they excuse what would be a miss, as in COCO.
- COCO (Lin and others, ECCV 2014, and its public evaluation code): a detection takes, of the objects that it overlaps
  enough and that nobody took, the one it overlaps most, of equals the last; an object that is to be ignored only
  where there is no other.  A crowd may be taken by many.  What takes an ignored object or a crowd is ignored.
  At most 100 detections of an image and a class count, the best.

Enough is at least the threshold.  VOC's own code counts the pixels of boxes whose far edges are inclusive; here boxes
are continuous, as in COCO, so an overlap can differ from its own by the width of a pixel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from probes.errors import InputError

THRESHOLDS: Float[np.ndarray, " t"] = np.linspace(0.5, 0.95, 10)  # to the last bit those of COCO's code
MOST = 100  # detections of an image and a class
PLAIN, DIFFICULT, CROWD = 0, 1, 2  # flags of an object
MISS, HIT, IGNORED = 0, 1, 2


class Matches(NamedTuple):
    """What became of each detection: `MISS`, `HIT` or `IGNORED`, which rows without a detection are too."""

    voc: Int8[np.ndarray, "n t k"]
    coco: Int8[np.ndarray, "n t k"]


def match(
    overlaps: Float[np.ndarray, "n k m"],
    scores: Float[np.ndarray, "n k"],
    labels: Int[np.ndarray, "n k"],
    objects: Int[np.ndarray, "n m"],
    flags: Int[np.ndarray, "n m"],
) -> Matches:
    """By both rules, at each of `THRESHOLDS`.

    `labels` and `objects` are the classes of detections and objects, −1 where there is none.  An overlap with a
    crowd is the part of the detection that it covers, any other the intersection over union.
    """
    order = np.argsort(np.where(labels < 0, np.inf, -scores), axis=1, kind="stable")
    labels = np.take_along_axis(labels, order, 1)
    alike = (labels[:, :, None] == objects[:, None, :]) & (objects >= 0)[:, None, :]
    near = np.where(alike, np.take_along_axis(overlaps, order[:, :, None], 1), 0.0)
    if not ((near >= 0) & (near <= 1 + 1e-9)).all():
        raise InputError(
            "overlaps go beyond 0 and 1 or are not numbers; wanted intersection over union, and of a crowd the "
            "part of the detection that it covers"
        )
    if not near.shape[2]:  # nowhere an object; a column of nothing spares the rules this case
        near, flags = np.zeros((*labels.shape, 1)), np.zeros((len(labels), 1), int)
    places = np.broadcast_to(order[:, None, :], (len(order), len(THRESHOLDS), order.shape[1]))
    found = []
    for state in (_voc(near, flags), _coco(near, labels, flags)):
        state[np.broadcast_to(labels[:, None, :] < 0, state.shape)] = IGNORED
        back = np.empty_like(state)
        np.put_along_axis(back, places, state, 2)
        found.append(back)
    return Matches(*found)


def _voc(near: Float[np.ndarray, "n k m"], flags: Int[np.ndarray, "n m"]) -> Int8[np.ndarray, "n t k"]:
    n, k, m = near.shape
    crowd = (flags == CROWD)[:, None, :]
    alone = np.where(crowd, 0.0, near)
    meant = alone.argmax(2)  # the first of equals
    most = np.take_along_axis(alone, meant[:, :, None], 2)[:, :, 0]
    covered = np.where(crowd, near, 0.0).max(2)
    difficult = np.take_along_axis(flags, meant, 1) == DIFFICULT
    which = meant + m * np.arange(n)[:, None]  # counted over all images
    row = np.broadcast_to(np.arange(k), (n, k))
    state = np.full((n, len(THRESHOLDS), k), MISS, np.int8)
    for level, threshold in enumerate(THRESHOLDS):
        enough = most >= threshold
        first = np.empty(n * m, int)
        first[which[enough][::-1]] = row[enough][::-1]  # of several the one that is written last
        hit = np.logical_and(enough, first[which] == row)
        ignored = enough & difficult | ~hit & (covered >= threshold)
        state[:, level][hit] = HIT
        state[:, level][ignored] = IGNORED
    return state


def _coco(
    near: Float[np.ndarray, "n k m"], labels: Int[np.ndarray, "n k"], flags: Int[np.ndarray, "n m"]
) -> Int8[np.ndarray, "n t k"]:
    n, k, _ = near.shape
    late = _late(labels)
    reached = np.searchsorted(THRESHOLDS, near, side="right")  # of how many thresholds there is enough
    reached[late] = 0
    level = np.arange(len(THRESHOLDS))[:, None]
    state = np.full((n, len(THRESHOLDS), k), MISS, np.int8)
    state[np.broadcast_to(late[:, None, :], state.shape)] = IGNORED
    free = np.ones((n, len(THRESHOLDS), flags.shape[1]), bool)
    eligible = np.asarray(reached.any(2))
    for row in range(k):
        (some,) = np.nonzero(eligible[:, row])  # the images where something is to be taken
        if not len(some):
            continue
        choice = _preference(near[some, row], flags[some])
        choice = np.where((reached[some, row, None] > level) & free[some], choice[:, None], -1)
        best = choice.argmax(2)
        took = np.take_along_axis(choice, best[:, :, None], 2)[:, :, 0] >= 0
        flag = np.take_along_axis(flags[some], best, 1)
        state[some, :, row] = np.where(took, np.where(flag == PLAIN, HIT, IGNORED), MISS)
        image, at = np.nonzero(took & (flag != CROWD))
        free[some[image], at, best[image, at]] = False
    return state


def _preference(near: Float[np.ndarray, "s m"], flags: Int[np.ndarray, "s m"]) -> Int[np.ndarray, "s m"]:
    """The rank of each object to a detection: the more the better."""
    m = near.shape[1]
    worst_first = np.lexsort((near, flags == PLAIN), axis=1)  # stable: of equals the last is the best
    rank = np.empty_like(worst_first)
    np.put_along_axis(rank, worst_first, np.broadcast_to(np.arange(m), near.shape), 1)
    return rank


def _late(labels: Int[np.ndarray, "n k"]) -> Bool[np.ndarray, "n k"]:
    """The detections that have as many as count before them, of their image and class."""
    if labels.shape[1] <= MOST:
        return np.zeros(labels.shape, bool)
    by_class = np.argsort(labels, axis=1, kind="stable")
    ordered = np.take_along_axis(labels, by_class, 1)
    ahead = np.zeros(labels.shape, bool)
    ahead[:, MOST:] = ordered[:, MOST:] == ordered[:, :-MOST]
    late = np.empty_like(ahead)
    np.put_along_axis(late, by_class, ahead, 1)
    return late
