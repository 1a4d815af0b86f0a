"""How far a score can be trusted.  Axes: n samples, s statistics of a sample, B resamples, c classes.

Samples are sorted before any is drawn: an interval depends on the samples and the seed, not on the machine or the
order of rows. A resample is a weight a sample, and what is resampled are weighted sums.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from probes.errors import InputError
from probes.resampling import checked_level, interval, resampled, swapped

FEW = 10  # resamples past 0: with fewer, a share of them says little


def wilson(successes: int | float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a proportion: never outside 0 … 1, and not a point at 0 of n or n of n."""
    if n < 1 or not 0 <= successes <= n:
        raise InputError(
            f"{successes} successes of {n} make no proportion; wanted n >= 1 and successes from 0 to n"
        )
    z = NormalDist().inv_cdf((1 + checked_level(level)) / 2)
    share = successes / n
    centre = share + z**2 / (2 * n)
    spread = z * (share * (1 - share) / n + z**2 / (4 * n**2)) ** 0.5
    low, high = ((centre + sign * spread) / (1 + z**2 / n) for sign in (-1, 1))
    return (float(low) if successes > 0 else 0.0, float(high) if successes < n else 1.0)


def bootstrap(
    per_sample: Num[np.ndarray, "n s"],
    value: Callable[[np.ndarray], np.ndarray],
    *,
    weights: Num[np.ndarray, " _n"] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    """Percentile interval of a value made of sums over samples.

    `value` turns (B, s) sums over resampled rows into (B,) values, or (B, m): then both ends are arrays of m.
    A mean needs a column of ones beside it where not every sample has a value. A row of weight w adds w times its
    statistics. Resamples in which the value is NaN are left out.
    """
    rows = _finite(np.asarray(per_sample, np.float64), "per-sample statistics")
    if weights is not None:
        if len(weights) != len(rows):
            raise InputError(f"{len(weights)} weights came for {len(rows)} rows; wanted one each")
        rows = rows * _finite(np.asarray(weights, np.float64), "weights")[:, None]
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    draws = (times @ distinct for times in resampled(counts, resamples, seed))
    return interval(np.concatenate([value(sums) for sums in draws]), level)


def bootstrap_confusion(
    confusion: Int[np.ndarray, "c c"],
    value: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    """The same from a confusion matrix (rows: target), as rows of one cell are interchangeable.

    `value` takes (B, c) hits, targets and predictions of each class. Only the cells that are not empty are drawn,
    and no (B, c, c) array is made.
    """
    target, prediction = np.nonzero(confusion)
    if not len(target):
        raise InputError("the confusion matrix is empty; wanted at least one counted row")
    counts = confusion[target, prediction]
    diagonal, values = target == prediction, []
    for times in resampled(counts, resamples, seed, room=len(confusion)):
        sums = [np.zeros((len(times), len(confusion)), np.int64) for _ in range(3)]
        sums[0][:, target[diagonal]] = times[:, diagonal]
        for total, classes in zip(sums[1:], (target, prediction), strict=True):
            order = np.argsort(classes, kind="stable")
            present, first = np.unique(classes[order], return_index=True)
            total[:, present] = np.add.reduceat(times[:, order], first, axis=1)
        values.append(value(*sums))
    return interval(np.concatenate(values), level)


class Paired(NamedTuple):
    """Mean of a - b over the same samples, its interval, and the two-sided p of no difference."""

    difference: float
    low: float
    high: float
    p: float


def paired_bootstrap(
    a: Num[np.ndarray, " n"] | Bool[np.ndarray, " n"],
    b: Num[np.ndarray, " _n"] | Bool[np.ndarray, " _n"],
    *,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Paired:
    """Compare two scores of the same samples; p is twice the share of resamples on the other side of 0.

    It cannot fall below 2 / (resamples + 1): Holm's correction of m comparisons wants well over 40 m resamples.
    Nor below what an exact test can reach with so few samples that differ: from one to five tell nothing at 5 %,
    though resamples of one sample all agree.  With a and b exchanged, signs turn and p stays.
    """
    differences = np.sort(_differences(a, b))
    apart = differences + differences[::-1]  # from their mirror image: all 0 where that is the same
    sign = -1.0 if next(iter(apart[apart != 0]), 0) < 0 else 1.0
    values, counts = np.unique(sign * differences, return_counts=True)
    means = np.concatenate([times @ values for times in resampled(counts, resamples, seed)]) / counts.sum()
    low, high = sorted(sign * float(end) for end in interval(means, level))
    p = max(_two_sided(means, abs(values).max()), _least(differences, abs(values).max()))
    return Paired(sign * float(values @ counts / counts.sum()), low, high, p)


def pairwise_bootstrap(
    scores: Num[np.ndarray, "n k"] | Bool[np.ndarray, "n k"], *, resamples: int = 1000, seed: int = 0
) -> Float[np.ndarray, "k k"]:
    """Two-sided p of no difference of means for every two of k columns, from resamples that all share.

    A share of the resamples cannot tell the small p that Holm's correction of many pairs asks for. Where fewer
    than ten of them lie past 0, p is the tail of the normal distribution that has their mean and spread, if that
    is less.  It is never below what an exact test can reach with so few samples that differ.
    """
    rows = _finite(np.asarray(scores, np.float64), "scores")
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    means = np.concatenate([times @ distinct for times in resampled(counts, resamples, seed)]) / counts.sum()
    scale, p = abs(means).max(), np.ones((rows.shape[1],) * 2)
    for first in range(len(p)):
        for second in range(first):
            apart = _two_sided(means[:, first] - means[:, second], scale, FEW)
            apart = max(apart, _least(rows[:, first] - rows[:, second], scale))
            p[first, second] = p[second, first] = apart
    return p


def permutation_test(
    a: Num[np.ndarray, " n"] | Bool[np.ndarray, " n"],
    b: Num[np.ndarray, " _n"] | Bool[np.ndarray, " _n"],
    *,
    resamples: int = 10_000,
    seed: int = 0,
) -> float:
    """Two-sided p of the mean difference when a and b are swapped at random, sample by sample.

    The observed assignment counts as one of them, so p is never 0.
    """
    sizes, counts = np.unique(np.abs(_differences(a, b)), return_counts=True)
    slack = 1e-12 * (sizes @ counts)  # sums that differ in their rounding only are equal
    observed, extreme = abs(_differences(a, b).sum()) - slack, 0
    for signs in swapped(counts, resamples, seed):
        extreme += int((np.abs(signs @ sizes) >= observed).sum())
    return (extreme + 1) / (resamples + 1)


def holm(p_values: Sequence[float] | Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Holm's adjusted p values, in the order given: compared with a level, they bound the chance of any false find."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted


def _two_sided(means: Float[np.ndarray, " B"], scale: float, few: int = 0) -> float:
    """Twice the share of resamples past 0; where that are less than `few`, the normal tail if it is smaller.

    Means that differ from 0 in the rounding of numbers of this scale only are 0.
    """
    means = np.where(abs(means) > 1e-12 * scale, means, 0)
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * (int(beyond) + 1) / (len(means) + 1))
    if beyond >= few:
        return p
    spread = float(means.std())
    return min(p, math.erfc(abs(float(means.mean())) / spread / math.sqrt(2)) if spread else 0.0)


def _least(differences: Float[np.ndarray, " n"], scale: float) -> float:
    """The least two-sided p of m samples that differ: one of the 2^m ways to give them signs, and its mirror image."""
    m = int((abs(differences) > 1e-12 * scale).sum())
    return min(1.0, 2.0 ** (1 - m))


def _differences(a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, " n"]:
    if np.shape(a) != np.shape(b):
        raise InputError(
            f"{np.shape(a)} values stand against {np.shape(b)}; wanted scores of the same samples"
        )
    return _finite(np.asarray(a, np.float64) - np.asarray(b, np.float64), "differences")


def _finite(array: np.ndarray, name: str) -> np.ndarray:
    if not array.size:
        raise InputError(f"there are no {name}; wanted at least one sample")
    if not np.isfinite(array).all():
        raise InputError(
            f"{name} are not all finite; leave those samples out, or count them in a column of their own"
        )
    return array
