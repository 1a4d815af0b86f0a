"""Boundaries against several annotators: ODS, OIS and AP (Arbeláez, Maire, Fowlkes and Malik, PAMI 2011).

The protocol of BSDS500.  Axes: h w pixels of the original picture, a annotators, t thresholds, n images.

A soft map is reduced to its crests (`ridges`) and cut at each threshold k / (t + 1); what reaches it is thinned.
These pixels are matched one to one with those of each annotator in turn, no further apart than 0.0075 of the
picture's diagonal (`matching`).  A predicted pixel is right where it is matched by any annotator; recall counts the
pixels of all annotators together.

- `ods`: F = 2PR / (P + R) of the counts summed over images, at the one threshold that suits them best.
- `ois`: the same where every picture has its own best threshold.  Sums of counts are no sums of F, so a single
  threshold can in rare cases pool to more; it is one of the choices too, and then is what counts.
- `ap`: the area under precision over recall at 0, 0.01 … 1, linear between thresholds and 0 outside the recalls
  that occur, as in the benchmark's own code: a map that never says «almost nothing» loses what lies left.

Taking crests first is how learned detectors are scored; the benchmark's own code cuts and thins the map as it comes,
which is `suppress=False`.  From coarse grids come broad ridges, which run together at low thresholds: cut as they
are, a probe that sees edges can fall behind a map that knows nothing of the picture.

The benchmark's code also looks for the best F between thresholds on the line from (P, R) to (P, R), which no
map attains; with 99 thresholds that is worth less than 0.001, and is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num, UInt8

from probes.errors import InputError
from probes.metrics.matching import Marks, Plane, match
from probes.metrics.ridges import crests
from probes.metrics.sums import ratio
from probes.metrics.thinning import thin_levels

PROTOCOL = "bsds500_nms"  # with suppress=False it would be the benchmark's own, "bsds500"
TOLERANCE = 0.0075  # of the picture's diagonal
THRESHOLDS = 99
_RECALLS = np.arange(101) / 100


class Tally(NamedTuple):
    """Counts of pixels by threshold; they add over images."""

    right: Num[np.ndarray, "*n t"]  # predicted, and matched by an annotator
    predicted: Num[np.ndarray, "*n t"]
    found: Num[np.ndarray, "*n t"]  # of an annotator, and matched
    marked: Num[np.ndarray, "*n t"]  # of all annotators together
    best: Num[np.ndarray, "*n 4"]  # these four at the picture's own best threshold


def max_distance(size: tuple[int, int], tolerance: float = TOLERANCE) -> float:
    """In pixels, for the (height, width) of the whole picture: 4.34 for 321×481."""
    return tolerance * float(np.hypot(*size))


def thresholds(count: int = THRESHOLDS) -> Float[np.ndarray, " t"]:
    """The benchmark's: `count` of them evenly inside (0, 1)."""
    return np.arange(1, count + 1) / (count + 1)


def evaluate(
    prediction: Float[np.ndarray, "h w"],
    truth: Bool[np.ndarray, "_h _w a"] | UInt8[np.ndarray, "_h _w a"],
    *,
    max_distance: float,
    levels: Float[np.ndarray, " t"] | None = None,
    suppress: bool = True,
) -> Tally:
    """The counts of one picture at its original size; `max_distance` in pixels.

    Both may be cut to the same part of the picture: nothing is thought to lie beyond.
    """
    _check(prediction.shape, truth)
    if not np.isfinite(prediction).all():
        raise InputError(
            "a predicted boundary map is not finite; the probe has diverged, lower its learning rate"
        )
    plane = Plane((truth.shape[0], truth.shape[1]), max_distance)
    annotators = [Marks(plane, np.flatnonzero(truth[..., each])) for each in range(truth.shape[2])]
    shown = crests(prediction) if suppress else prediction
    cut = thin_levels(shown, thresholds() if levels is None else levels)
    counts = np.zeros((4, len(cut)), np.int64)
    for level, pixels in enumerate(cut):
        if level and np.array_equal(pixels, cut[level - 1]):
            counts[:, level] = counts[:, level - 1]
        else:
            counts[:, level] = _count(Marks(plane, pixels), annotators)
    return _with_best(counts)


def agreement(truth: Bool[np.ndarray, "h w a"] | UInt8[np.ndarray, "h w a"], *, max_distance: float) -> Tally:
    """Each annotator as a prediction (one threshold) against all the others, summed: how far people agree.

    The `ods` of sums over images is the human F of the benchmark, 0.80 on BSDS500.
    """
    _check(truth.shape[:2], truth)
    if truth.shape[2] < 2:
        raise InputError("agreement needs two annotators or more, and there is one")
    plane = Plane((truth.shape[0], truth.shape[1]), max_distance)
    marks = [Marks(plane, np.flatnonzero(truth[..., each])) for each in range(truth.shape[2])]
    counts = np.zeros(4, np.int64)
    for one, said in enumerate(marks):
        counts += _count(said, marks[:one] + marks[one + 1 :])
    return _with_best(counts[:, None])


def scores(tally: Tally) -> dict[str, np.ndarray]:
    """Of each picture: F at its own best threshold; NaN where no annotator marked anything."""
    f = _f(np.moveaxis(tally.best, -1, 0))
    return {"best_f": np.where(tally.best[..., 3] > 0, f, np.nan)}


def pooled(sums: Tally) -> dict[str, np.ndarray]:
    """`ods`, `ois`, `ap`, and of `ods` the `ods_precision` and `ods_recall`, leading axes kept.

    NaN where no annotator marked anything.
    """
    precision, recall = ratio(sums.right, sums.predicted, 0.0), ratio(sums.found, sums.marked, 0.0)
    f, level = _f(np.stack(sums[:4])), best_level(sums)

    def there(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, level[..., None], -1)[..., 0]

    rows = zip(recall.reshape(-1, f.shape[-1]), precision.reshape(-1, f.shape[-1]), strict=True)
    values = {
        "ods": there(f),
        "ois": np.maximum(_f(np.moveaxis(sums.best, -1, 0)), there(f)),
        "ap": np.array([_area(*row) for row in rows]).reshape(level.shape),
        "ods_precision": there(precision),
        "ods_recall": there(recall),
    }
    marked = sums.marked[..., 0] > 0
    return {name: np.where(marked, value, np.nan) for name, value in values.items()}


def best_level(sums: Tally) -> Int[np.ndarray, "*n"]:
    """The position of the one threshold that `ods` is taken at."""
    return np.asarray(_f(np.stack(sums[:4])).argmax(-1))


def _count(said: Marks, annotators: list[Marks]) -> tuple[int, ...]:
    """Right, predicted, found, marked."""
    matched = [match(said, each) >= 0 for each in annotators]
    right = np.any(matched, axis=0)
    return int(right.sum()), len(said), int(np.sum(matched)), sum(map(len, annotators))


def _with_best(counts: Int[np.ndarray, "4 t"]) -> Tally:
    f = _f(counts)
    last = len(f) - 1 - int(f[::-1].argmax())  # of equals the one that predicts least
    return Tally(*counts, best=counts[:, last])


def _f(counts: Num[np.ndarray, "4 ..."]) -> np.ndarray:
    """Of right, predicted, found and marked."""
    right, predicted, found, marked = counts
    precision, recall = ratio(right, predicted, 0.0), ratio(found, marked, 0.0)
    return ratio(2 * precision * recall, precision + recall, 0.0)


def _area(recall: Float[np.ndarray, " t"], precision: Float[np.ndarray, " t"]) -> float:
    occur, first = np.unique(recall, return_index=True)
    if len(occur) == 1:  # no curve but a point, where the benchmark's code says 0
        return float(occur[0] * precision[0])
    area = np.interp(_RECALLS, occur, precision[first], left=0.0, right=0.0).sum() * 0.01
    return min(1.0, float(area))  # 101 heights of 0.01


def _check(size: tuple[int, ...], truth: np.ndarray) -> None:
    if truth.shape[:2] != size or truth.shape[2] < 1:
        raise InputError(
            f"a boundary map of {size} was to be compared with annotators of {truth.shape}; both must be of the "
            "same pixels, by one annotator or more"
        )
