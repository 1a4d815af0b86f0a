"""How far a score can be trusted.  Axes: n samples, s statistics of a sample, B resamples, c classes.

All draws come from numpy's PCG64 in an order that no chunk size changes, and samples are sorted first: an interval
depends on the samples and the seed, not on the machine or the order of rows. A resample of n samples out of n is a
multinomial draw over the distinct ones, so where few distinct samples occur (hits and misses, cells of a confusion
matrix) the cost does not grow with n.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num

from probes.errors import InputError

CHUNK = 2**22  # numbers held at once
INDEX_GAIN = 8  # a drawn index costs about an eighth of a drawn binomial


def wilson(successes: int | float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a proportion: never outside 0 … 1, and not a point at 0 of n or n of n."""
    if n < 1 or not 0 <= successes <= n:
        raise InputError(
            f"{successes} successes of {n} make no proportion; wanted n >= 1 and successes from 0 to n"
        )
    z = NormalDist().inv_cdf((1 + _checked(level)) / 2)
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
    draws = (times @ distinct for times in _resampled(counts, resamples, seed))
    return _interval(np.concatenate([value(sums) for sums in draws]), level)


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
    for times in _resampled(counts, resamples, seed, room=len(confusion)):
        sums = [np.zeros((len(times), len(confusion)), np.int64) for _ in range(3)]
        sums[0][:, target[diagonal]] = times[:, diagonal]
        for total, classes in zip(sums[1:], (target, prediction), strict=True):
            order = np.argsort(classes, kind="stable")
            present, first = np.unique(classes[order], return_index=True)
            total[:, present] = np.add.reduceat(times[:, order], first, axis=1)
        values.append(value(*sums))
    return _interval(np.concatenate(values), level)


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
    """
    values, counts = np.unique(_differences(a, b), return_counts=True)
    means = np.concatenate([times @ values for times in _resampled(counts, resamples, seed)]) / counts.sum()
    low, high = _interval(means, level)
    beyond = min((means <= 0).sum(), (means >= 0).sum())
    p = min(1.0, 2 * (int(beyond) + 1) / (resamples + 1))
    return Paired(float(values @ counts / counts.sum()), float(low), float(high), p)


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
    for signs in _swapped(counts, resamples, seed):
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


def _resampled(
    counts: Int[np.ndarray, " k"], resamples: int, seed: int, room: int = 0
) -> Iterator[Num[np.ndarray, "B k"]]:
    """How often each of k distinct samples is drawn, in chunks of resamples."""
    n, generator = int(counts.sum()), _generator(seed)
    if len(counts) * INDEX_GAIN < n:
        for size in _chunks(resamples, max(len(counts), room)):
            yield generator.multinomial(n, counts / n, size=size)
        return
    owner = np.repeat(np.arange(len(counts)), counts)
    for size in _chunks(resamples, max(n, room)):
        drawn = owner[generator.integers(0, n, size=(size, n))]
        drawn += len(counts) * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * len(counts)).reshape(size, len(counts))


def _swapped(counts: Int[np.ndarray, " k"], resamples: int, seed: int) -> Iterator[Num[np.ndarray, "B k"]]:
    """The sum of as many random signs as each of k distinct samples has copies, in chunks of resamples."""
    generator = _generator(seed)
    if counts.max() > 1:
        for size in _chunks(resamples, len(counts)):
            yield 2 * generator.binomial(counts, 0.5, size=(size, len(counts))) - counts
        return
    words = -(-len(counts) // 32)  # a generator hands out 32 bits at a time
    for size in _chunks(resamples, 32 * words):
        bits = np.frombuffer(generator.bytes(4 * words * size), np.uint8).reshape(size, 4 * words)
        yield 2.0 * np.unpackbits(bits, axis=1, count=len(counts)) - 1


def _chunks(resamples: int, width: int) -> Iterator[int]:
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; wanted at least 1, usually 1000")
    size = max(1, CHUNK // width)
    yield from (min(size, resamples - start) for start in range(0, resamples, size))


def _interval(values: np.ndarray, level: float) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    ends = [(1 - _checked(level)) / 2, (1 + level) / 2]
    defined = ~np.isnan(values).all(0)
    low, high = np.nanquantile(np.where(defined, values, 0), ends, axis=0)
    low, high = np.where(defined, low, np.nan), np.where(defined, high, np.nan)
    return (float(low), float(high)) if values.ndim == 1 else (low, high)


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


def _checked(level: float) -> float:
    if not 0 < level < 1:
        raise InputError(f"level is {level}; wanted a share between 0 and 1, such as 0.95")
    return level


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))
