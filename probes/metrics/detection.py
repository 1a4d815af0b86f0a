"""Detections beside objects: overlaps, tallies of images, and of these average precision.

Axes: n images, k detections, m objects, c classes.  A padded detection is x0, y0, x1, y1, score, label, a padded object
x0, y0, x1, y1, label, flag (0 an object, 1 `difficult`, 2 a crowd); boxes are continuous, from edge to edge, and a
label of −1 says that there is none.  How detections are matched says `box_matching`, how they are averaged
`average_precision`.

All of it is on the host in 64 bit: whether 3/5 is enough for 0.6 must not hang on how a product is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from probes.errors import InputError
from probes.metrics.average_precision import (
    METRICS,
    NAMES,
    Tally,
    ap_11,
    influence,
    per_class,
    value,
    weighted,
)
from probes.metrics.box_matching import CROWD, DIFFICULT, PLAIN, match

__all__ = [
    "METRICS",
    "NAMES",
    "Tally",
    "ap_11",
    "box_overlaps",
    "influence",
    "mask_overlaps",
    "per_class",
    "tally",
    "value",
    "weighted",
]
CHUNK = 2**19  # overlaps held at once


def tally(
    detections: Float[np.ndarray, "n k 6"] | Float[Array, "n k 6"],
    truths: Float[np.ndarray, "n m 6"] | Float[Array, "n m 6"],
    *,
    num_classes: int,
    overlaps: Float[np.ndarray, "_n _k _m"] | None = None,
) -> Tally:
    """Of each image; with `overlaps` (those of `mask_overlaps`, say) in place of the boxes'."""
    said, true = np.asarray(detections), np.asarray(truths)
    labels, objects = (
        _classes(rows[..., at], num_classes, name)
        for rows, at, name in ((said, 5, "detections"), (true, 4, "objects"))
    )
    _check_finite(said[labels >= 0], "a detection", "the probe has diverged, lower its learning rate")
    _check_finite(true[objects >= 0], "an object", "mend its box")
    flags = true[..., 5].astype(int)
    if not np.isin(true[objects >= 0][:, 5], (PLAIN, DIFFICULT, CROWD)).all():
        raise InputError(
            "an object has a flag other than 0, 1 (difficult) and 2 (a crowd); wanted one of these"
        )
    (n, k), m = labels.shape, objects.shape[1]
    if overlaps is not None and overlaps.shape != (n, k, m):
        raise InputError(
            f"overlaps have shape {overlaps.shape}; wanted {(n, k, m)}, one a detection and object"
        )
    size = max(1, CHUNK // max(k * m, 1))
    found = []
    for start in range(0, max(n, 1), size):
        rows = slice(start, start + size)
        near = (
            box_overlaps(said[rows], true[rows])
            if overlaps is None
            else np.asarray(overlaps[rows], np.float64)
        )
        found.append(match(near, said[rows, :, 4], labels[rows], objects[rows], flags[rows]))
    counted = (objects >= 0) & (flags == PLAIN)
    of_class = counted[:, :, None] & (objects[:, :, None] == np.arange(num_classes))
    voc, coco = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Tally(said[..., 4], labels, voc, coco, of_class.sum(1))


def box_overlaps(
    detections: Float[np.ndarray, "n k 6"], truths: Float[np.ndarray, "n m 6"]
) -> Float[np.ndarray, "n k m"]:
    """Intersection over union; of a crowd the part of the detection that it covers.  0 where there is no box."""
    said, true = detections.astype(np.float64), truths.astype(np.float64)
    meet = (said[..., 5] >= 0)[:, :, None] & (true[..., 4] >= 0)[:, None]
    shared = np.ones(meet.shape)
    for low, high in ((0, 2), (1, 3)):
        side = np.minimum(said[:, :, None, high], true[:, None, :, high])
        side -= np.maximum(said[:, :, None, low], true[:, None, :, low])
        meet &= side > 0
        shared *= side
    said_area, true_area = ((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in map(_sides, (said, true)))
    union = said_area[:, :, None] + true_area[:, None] - shared
    whole = np.where((true[..., 5] == CROWD)[:, None], said_area[:, :, None], union)
    return np.asarray(np.divide(shared, whole, out=np.zeros(meet.shape), where=meet))


def _sides(rows: Float[np.ndarray, "n _k 6"]) -> tuple[np.ndarray, ...]:
    return tuple(np.moveaxis(rows[..., :4], -1, 0))


def mask_overlaps(
    said: Sequence[Sequence[Mapping[str, Any]]],
    true: Sequence[Sequence[Mapping[str, Any]]],
    detections: Float[np.ndarray, "n k 6"],
    truths: Float[np.ndarray, "n m 6"],
) -> Float[np.ndarray, "n k m"]:
    """The same of masks: COCO's run lengths (`size`, `counts`), one for each detection and object that is there.

    Masks stand in the order of the padded rows.
    """
    try:
        from pycocotools import mask
    except ImportError as error:
        raise InputError(
            "masks are compared with pycocotools, which is not installed; pip install 'visbench[boxes]'"
        ) from error
    overlaps = np.zeros((*detections.shape[:2], truths.shape[1]))
    for image, (ours, theirs) in enumerate(zip(said, true, strict=True)):
        (rows,), (columns,) = np.nonzero(detections[image, :, 5] >= 0), np.nonzero(truths[image, :, 4] >= 0)
        for masks, wanted, name in ((ours, rows, "detections"), (theirs, columns, "objects")):
            if len(masks) != len(wanted):
                raise InputError(
                    f"image {image} has {len(masks)} masks for {len(wanted)} {name}; wanted one for each"
                )
        sizes = {tuple(each["size"]) for each in (*ours, *theirs)}
        if len(sizes) > 1:  # which pycocotools answers with an overlap of −1
            raise InputError(f"image {image} has masks of {sorted(sizes)}; wanted all of the picture's size")
        if len(rows) and len(columns):
            crowds = (truths[image, columns, 5] == CROWD).astype(int).tolist()
            overlaps[image][np.ix_(rows, columns)] = mask.iou(list(ours), list(theirs), crowds)
    return overlaps


def _classes(labels: np.ndarray, num_classes: int, name: str) -> np.ndarray:
    whole = np.where(np.isfinite(labels), labels, -2).astype(int)
    if (whole != labels).any() or (whole < -1).any() or (whole >= num_classes).any():
        wrong = labels[(whole != labels) | (whole < -1) | (whole >= num_classes)][0]
        raise InputError(
            f"{name} have the class {wrong:g}; wanted whole numbers from 0 to {num_classes - 1}, and −1 where "
            "there is none"
        )
    return whole


def _check_finite(rows: np.ndarray, what: str, way_out: str) -> None:
    if not np.isfinite(rows).all():
        raise InputError(f"{what} has a box or a score that is not finite; {way_out}")
