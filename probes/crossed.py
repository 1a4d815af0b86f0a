"""Intervals of scores that several fits made of the same samples.  Axes: r fits, n samples, c classes, B resamples.

Samples and fits are both drawn with replacement, each on its own (the pigeonhole bootstrap: Owen, Annals of Applied
Statistics 2007).  It errs on the wide side; resampling the r * n scores as if they were independent errs on the
narrow side, by a factor that grows with r.
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from probes.resampling import interval, resampled
from probes.statistics import wilson

Interval = tuple[float, float]


def bootstrap_mean(
    scores: Num[np.ndarray, "r n"] | Bool[np.ndarray, "r n"],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """The interval of the mean of all scores; of hits that are all alike, Wilson's of one fit."""
    scores = np.asarray(scores)
    if scores.dtype == bool and scores.all() == scores.any():  # no resample differs, which is no certainty
        return wilson(int(scores[0].sum()), scores.shape[1], level)
    scores = scores.astype(np.float64)
    scores = scores[:, np.lexsort(scores)]  # samples in an order of their own, whatever that of the rows
    fits = _fits(scores, resamples, seed)
    values, done = [], 0
    for times in resampled(np.ones(scores.shape[1], np.int64), resamples, seed):
        own = fits[done : done + len(times)]
        values.append(((times @ scores.T) * own).sum(1) / scores.size)
        done += len(times)
    low, high = interval(np.concatenate(values), level)
    return float(low), float(high)


def bootstrap_classes(
    labels: Int[np.ndarray, " n"],
    predictions: Int[np.ndarray, "r n"],
    values: Mapping[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]],
    *,
    num_classes: int,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Interval]:
    """Intervals of values of (B, c) hits, targets and predictions of each class, averaged over fits."""
    order = np.lexsort((*predictions, labels))
    labels, predictions = labels[order], predictions[:, order]
    fits = _fits(predictions, resamples, seed)
    drawn: dict[str, list[np.ndarray]] = {name: [] for name in values}
    done = 0
    for times in resampled(np.ones(len(labels), np.int64), resamples, seed):
        own, targets = fits[done : done + len(times)], _by_class(times, labels, num_classes)
        sums = [
            (
                _by_class(times * (row == labels), labels, num_classes),
                targets,
                _by_class(times, row, num_classes),
            )
            for row in predictions
        ]
        for name, value in values.items():
            each = np.stack([value(*triple) for triple in sums], axis=1)
            drawn[name].append((each * own).sum(1) / len(predictions))
        done += len(times)
    ends = {name: interval(np.concatenate(chunks), level) for name, chunks in drawn.items()}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


def _fits(rows: np.ndarray, resamples: int, seed: int) -> Float[np.ndarray, "B r"]:
    """How often each fit is drawn: independent of the draws of samples."""
    draws = np.random.default_rng([seed, len(rows)])
    return draws.multinomial(len(rows), np.full(len(rows), 1 / len(rows)), resamples).astype(np.float64)


def _by_class(times: np.ndarray, classes: np.ndarray, num_classes: int) -> np.ndarray:
    """(B, c) sums of (B, n) weights by class."""
    order = np.argsort(classes, kind="stable")
    present, first = np.unique(classes[order], return_index=True)
    total = np.zeros((len(times), num_classes), times.dtype)
    total[:, present] = np.add.reduceat(times[:, order], first, axis=1)
    return total
