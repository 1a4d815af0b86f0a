"""How often a resample draws each sample, and the interval that follows.  Axes: k distinct samples, B resamples.

All draws come from numpy's PCG64 in an order that no chunk size changes. A resample of n samples out of n is a
multinomial draw over the distinct ones, so where few distinct samples occur (hits and misses, cells of a confusion
matrix) the cost does not grow with n.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int, Num

from probes.errors import InputError

CHUNK = 2**22  # numbers held at once
INDEX_GAIN = 8  # a drawn index costs about an eighth of a drawn binomial


def resampled(
    counts: Int[np.ndarray, " k"], resamples: int, seed: int, room: int = 0
) -> Iterator[Num[np.ndarray, "B k"]]:
    """How often each of k distinct samples is drawn, in chunks of resamples; `room` numbers a resample must fit."""
    n, generator = int(counts.sum()), _generator(seed)
    if len(counts) * INDEX_GAIN < n:
        for size in _chunks(resamples, max(len(counts), room)):
            yield generator.multinomial(n, counts / n, size=size)
        return
    owner = None if len(counts) == n else np.repeat(np.arange(len(counts)), counts)
    width = np.int32 if n < 2**31 else np.int64  # the same numbers, the narrow ones twice as fast
    for size in _chunks(resamples, max(n, room)):
        times = np.empty((size, len(counts)))
        for row, drawn in zip(times, generator.integers(0, n, size=(size, n), dtype=width), strict=True):
            row[:] = np.bincount(drawn if owner is None else owner[drawn], minlength=len(counts))
        yield times


def swapped(counts: Int[np.ndarray, " k"], resamples: int, seed: int) -> Iterator[Num[np.ndarray, "B k"]]:
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


def interval(values: np.ndarray, level: float) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    """The percentile interval of resampled values, over their first axis; NaN are left out."""
    ends = [(1 - checked_level(level)) / 2, (1 + level) / 2]
    defined = ~np.isnan(values).all(0)
    low, high = np.nanquantile(np.where(defined, values, 0), ends, axis=0)
    low, high = np.where(defined, low, np.nan), np.where(defined, high, np.nan)
    return (float(low), float(high)) if values.ndim == 1 else (low, high)


def checked_level(level: float) -> float:
    """The share of resamples that an interval holds."""
    if not 0 < level < 1:
        raise InputError(f"level is {level}; wanted a share between 0 and 1, such as 0.95")
    return level


def _chunks(resamples: int, width: int) -> Iterator[int]:
    if resamples < 1:
        raise InputError(f"resamples is {resamples}; wanted at least 1, usually 1000")
    size = max(1, CHUNK // width)
    yield from (min(size, resamples - start) for start in range(0, resamples, size))


def _generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))
