"""Intervals of average precision.  Axes: n samples, c classes, m pairs of a sample and a class, B resamples.

A resample is a weight a sample, whose classes are drawn together. Precision is asked only where a positive stands,
so a pair counts at the best of these thresholds that it reaches: what a resample needs are products of its weights
with sparse (thresholds, n) matrices, and nothing is sorted again.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from probes.errors import InputError
from probes.resampling import interval, resampled


def bootstrap_average_precision(
    scores: Num[np.ndarray, "n c"],
    targets: Bool[np.ndarray, "_n _c"] | Int[np.ndarray, "_n _c"],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> dict[str, Any]:
    """Percentile intervals of `micro_map`, `macro_map` and `per_class`, as `metrics.ranking.multilabel` has them.

    A class that a resample has no positive of is left out of that resample's macro mean; one without any positive
    is None.
    """
    scores, positive, counts = _distinct(scores, targets)
    rows, classes = np.arange(len(scores)), scores.shape[1]
    micro = _Ranking(np.repeat(rows, classes), scores.ravel(), positive.ravel())
    rankings = [micro, *(_Ranking(rows, *pair) for pair in zip(scores.T, positive.T, strict=True))]
    chunks = []
    for times in resampled(counts, resamples, seed, room=4 * micro.thresholds):
        columns = np.ascontiguousarray(times.T, np.float64)
        chunks.append(np.stack([ranking.average_precision(columns) for ranking in rankings], axis=1))
    values = np.concatenate(chunks)
    defined = ~np.isnan(values[:, 1:])
    macro = values[:, 1:].sum(1, where=defined) / np.where(defined.any(1), defined.sum(1), np.nan)
    low, high = map(np.asarray, interval(np.column_stack([macro, values]), level))
    ends = [*zip(low.tolist(), high.tolist(), strict=True)]
    per_class = [None if np.isnan(pair).all() else pair for pair in ends[2:]]
    return {"micro_map": ends[1], "macro_map": ends[0], "per_class": per_class}


class _Ranking:
    """Pairs that are ranked together: those of one class, or all."""

    def __init__(
        self, rows: Int[np.ndarray, " m"], scores: Float[np.ndarray, " m"], positive: Bool[np.ndarray, " m"]
    ) -> None:
        best_first = np.unique(-scores[positive])
        self.thresholds = len(best_first)
        reached = np.searchsorted(best_first, -scores)
        above = reached < self.thresholds  # the others rank below every positive
        shape = self.thresholds, int(rows[-1]) + 1
        self._all = _incidence(reached[above], rows[above], shape)
        self._hits = _incidence(reached[positive], rows[positive], shape)

    def average_precision(self, times: Float[np.ndarray, "n B"]) -> Float[np.ndarray, " B"]:
        """AP of each resample, NaN where it has no positive."""
        hits = self._hits @ times
        precision = hits.cumsum(0) / np.maximum((self._all @ times).cumsum(0), 1)
        found = hits.sum(0)
        return np.asarray((hits * precision).sum(0) / np.where(found > 0, found, np.nan))


def _incidence(thresholds: np.ndarray, rows: np.ndarray, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array  # it has no types; slow to import

    return csr_array((np.ones(len(rows)), (thresholds, rows)), shape=shape)


def _distinct(scores: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each different row of scores and of targets once, and how often it occurs."""
    if scores.shape != targets.shape or scores.ndim != 2 or not scores.size:
        raise InputError(
            f"scores have shape {scores.shape} and targets {targets.shape}; wanted (n, c) of both, not empty"
        )
    if np.isnan(scores).any():
        raise InputError("scores hold NaN, which has no rank; check the probe that gave them")
    if not np.isin(targets, (0, 1)).all() or not np.any(targets):
        raise InputError("targets are not all 0 and 1 with a 1 among them; wanted 1 where the class applies")
    rows = np.hstack([scores.astype(np.float64), targets.astype(np.float64)])
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    classes = scores.shape[1]
    return distinct[:, :classes], distinct[:, classes:] > 0, counts
