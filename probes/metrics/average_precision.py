"""Average precision of detections.  Axes: n images, k detections, t thresholds of overlap, c classes, B weightings.

Precision and recall are read down a class's detections by falling score, those that are ignored left out; of equal
scores the earlier image comes first, and in it the earlier row, as a stable sort of all leaves them.  Precision at a
recall is the best that is reached there or further down.  Its average is

- over every hit (`map_50`, `map_50_95`: VOC's rule since 2010, the area under that curve, with VOC's matching),
- at the recalls 0, 0.01 … 1 (`coco_map`, `coco_map_50`, `coco_map_75`: COCO's, with COCO's matching),
- at the recalls 0, 0.1 … 1 (`map_50_11_points`: VOC 2007).

`coco_ar_100` is the recall of COCO's matches, mean over thresholds.  All are means over the classes that have an object
which is neither difficult nor a crowd.

An image of weight w counts as w copies would.  Copies of a detection stand together; with whole weights that is what
pycocotools says of the copies, unless another detection of the same image and class has the very same score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8, Num

from probes.errors import InputError
from probes.metrics.box_matching import HIT, IGNORED, THRESHOLDS
from probes.metrics.precision_recall import Curve, Reading, area, at, recall
from probes.metrics.sums import ratio


class Tally(NamedTuple):
    """What became of the detections of each image; the tally of two sets of images is one behind the other."""

    scores: Float[np.ndarray, "n k"]
    labels: Int[np.ndarray, "n k"]  # −1 where there is no detection
    voc: Int8[np.ndarray, "n t k"]  # a miss, a hit, or ignored: see `box_matching`
    coco: Int8[np.ndarray, "n t k"]
    truths: Int[np.ndarray, "n c"]  # objects that are neither difficult nor a crowd


class Metric(NamedTuple):
    """What is read of which curves; a mean over their thresholds."""

    rule: str
    levels: Sequence[int]
    read: Reading


_ALL, _HALF, _THREE_QUARTERS = range(len(THRESHOLDS)), range(1), range(5, 6)
_HUNDRED = at(np.linspace(0, 1, 101))  # to the last bit COCO's, whose 0.57 is a little more than 57 / 100
_TEN = at(np.arange(11) / 10)
METRICS = {
    "map_50": Metric("voc", _HALF, area),
    "map_50_95": Metric("voc", _ALL, area),
    "coco_map": Metric("coco", _ALL, _HUNDRED),
    "coco_map_50": Metric("coco", _HALF, _HUNDRED),
    "coco_map_75": Metric("coco", _THREE_QUARTERS, _HUNDRED),
    "coco_ar_100": Metric("coco", _ALL, recall),
}
COUNTS = ("classes_scored", "detections_per_image")
NAMES = (*METRICS, *COUNTS)
_KNOWN = {**METRICS, "map_50_11_points": Metric("voc", _HALF, _TEN)}


def value(tally: Tally, names: Sequence[str] = NAMES) -> dict[str, float]:
    """Of all images, each once; NaN where no class has an object."""
    once = np.ones((1, len(tally.scores)))
    return {name: float(found[0]) for name, found in weighted(tally, once, names).items()}


def ap_11(tally: Tally) -> float:
    """The mean over classes by VOC 2007's rule, at 0.5."""
    return value(tally, ("map_50_11_points",))["map_50_11_points"]


def per_class(tally: Tally, name: str = "map_50") -> Float[np.ndarray, " c"]:
    """A metric of each class; NaN for one without an object."""
    if name not in _KNOWN:
        raise InputError(f"no metric of classes is called {name}; there are {', '.join(_KNOWN)}")
    return np.asarray(_by_class(tally, np.ones((1, len(tally.scores))), (name,))[name][0])


def weighted(
    tally: Tally, weights: Num[np.ndarray, "B n"], names: Sequence[str] = NAMES
) -> dict[str, Float[np.ndarray, " B"]]:
    """The metrics where image i counts `weights[b, i]` times, any number from 0 on.

    A class that a weighting leaves no object of is left out of that mean.  `names` may ask for
    `map_50_11_points` too; the fewer thresholds they need, the sooner it is done.
    """
    weights = np.asarray(weights, np.float64)
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise InputError(
            "weights of images are negative or not finite; wanted how often each counts, 0 or more"
        )
    unknown = sorted(set(names) - {*_KNOWN, *COUNTS})
    if unknown:
        raise InputError(f"no metric is called {unknown[0]}; there are {', '.join([*_KNOWN, *COUNTS])}")
    found = {name: _over_classes(each) for name, each in _by_class(tally, weights, names).items()}
    found["classes_scored"] = (weights @ tally.truths > 0).sum(1).astype(np.float64)
    found["detections_per_image"] = ratio(weights @ (tally.labels >= 0).sum(1), weights.sum(1))
    return {name: found[name] for name in names}


def influence(tally: Tally) -> dict[str, Float[np.ndarray, " n"]]:
    """Each image's part in a metric: the metric plus n times its slope in the image's weight.

    Such parts have the metric as their mean, and to resample them is to resample the metric to first order (the
    infinitesimal jackknife: Jaeckel 1972, Efron 1982).  Precision at 101 recalls moves in jumps as the recall does, and
    between them has no slope that says how; its place takes the slope of the area under the same curve, which
    it approximates.
    """
    n, known = len(tally.scores), value(tally)
    slopes = {(rule, level): curve.slopes() for rule, level, curve in _curves(tally, METRICS.values())}
    parts = {}
    for name, (rule, levels, read) in METRICS.items():
        each = [slopes[rule, level][recall if read is recall else area] for level in levels]
        parts[name] = known[name] + n * np.mean(each, axis=0)
    parts["classes_scored"] = np.full(n, known["classes_scored"])
    parts["detections_per_image"] = (tally.labels >= 0).sum(1).astype(np.float64)
    return parts


def _by_class(
    tally: Tally, weights: Float[np.ndarray, "B n"], names: Sequence[str]
) -> dict[str, Float[np.ndarray, "B c"]]:
    wanted = {name: metric for name, metric in _KNOWN.items() if name in names}
    found = {name: np.zeros((len(weights), tally.truths.shape[1])) for name in wanted}
    for rule, level, curve in _curves(tally, wanted.values()):
        asked = {name: each for name, each in wanted.items() if each.rule == rule and level in each.levels}
        readings = list(dict.fromkeys(metric.read for metric in asked.values()))
        read = curve.read(weights, readings)
        for name, metric in asked.items():
            found[name] += read[readings.index(metric.read)]
    return {name: total / len(wanted[name].levels) for name, total in found.items()}


def _curves(tally: Tally, metrics: Iterable[Metric]) -> Iterator[tuple[str, int, Curve]]:
    """Every curve that some metric reads, once."""
    labels = tally.labels.ravel()
    (said,) = np.nonzero(labels >= 0)
    order = said[np.lexsort((-tally.scores.ravel()[said], labels[said]))]
    images, classes = order // max(tally.labels.shape[1], 1), labels[order]
    for rule, level in sorted({(metric.rule, level) for metric in metrics for level in metric.levels}):
        state = getattr(tally, rule)[:, level].ravel()[order]
        counts = state != IGNORED
        yield rule, level, Curve(images[counts], classes[counts], state[counts] == HIT, tally.truths)


def _over_classes(values: Float[np.ndarray, "B c"]) -> Float[np.ndarray, " B"]:
    known = ~np.isnan(values)
    return ratio(np.where(known, values, 0).sum(1), known.sum(1))
