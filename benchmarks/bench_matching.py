"""Matching of patch grids beside a loop in numpy, pair after pair.

    python benchmarks/bench_matching.py [--pairs 200] [--side 16] [--dims 768] [--repeats 5]

float16 tokens of both grids of each pair, the second being the first in another order and with noise.  The loop
normalises, makes all products, takes the two nearest, tests their ratio and sorts the matches.  It comes in two forms:
with every row sorted, equals in their order, and with `argpartition`, which cares for no order.  The first is the
comparison that is wanted (5 ×), the second is printed beside it.  numpy goes first, before JAX has started its threads.
Answers are compared: the same matches, and the same of them kept.  What importing and compiling take is kept apart.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

TARGET = 5.0
RATIO, NUM_CORR = 0.9, 1000


def draw(pairs: int, patches: int, dims: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    source = np.empty((pairs, patches, dims), np.float16)
    target = np.empty_like(source)
    for pair in range(pairs):
        rows = rng.standard_normal((patches, dims), np.float32)
        source[pair] = 30 * rows
        noise = rng.uniform(0.3, 6, (patches, 1)).astype(np.float32)
        target[pair] = (
            30 * (rows + noise * rng.standard_normal((patches, dims), np.float32))[rng.permutation(patches)]
        )
    return source, target


def sorted_rows(distance: np.ndarray) -> np.ndarray:
    return np.argsort(distance, axis=1, kind="stable")[:, :2]


def partitioned(distance: np.ndarray) -> np.ndarray:
    return np.argpartition(distance, (0, 1), axis=1)[:, :2]


def loop(
    source: np.ndarray, target: np.ndarray, two_nearest: Callable[..., np.ndarray]
) -> tuple[np.ndarray, ...]:
    found, kept = [], []
    for a, b in zip(source, target, strict=True):
        a, b = a.astype(np.float32), b.astype(np.float32)
        a = a / np.linalg.norm(a, axis=1, keepdims=True)
        b = b / np.linalg.norm(b, axis=1, keepdims=True)
        distance = np.sqrt(np.maximum(2 - 2 * (a @ b.T), 0))
        two = two_nearest(distance)
        first, second = np.take_along_axis(distance, two, axis=1).T
        ratio = first / second
        order = np.argsort(ratio, kind="stable")
        best = order[ratio[order] < RATIO][:NUM_CORR]
        found.append(two[:, 0])
        kept.append(np.isin(np.arange(len(a)), best))
    return np.stack(found), np.stack(kept)


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The median of the seconds, and the answer."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        answer = work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds), answer


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--side", type=int, default=16, help="patches a side")
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=5)
    ask = parser.parse_args()
    source, target = draw(ask.pairs, ask.side**2, ask.dims)

    loops = {}
    for two_nearest in (sorted_rows, partitioned):
        loop(source[:2], target[:2], two_nearest)
        loops[two_nearest.__name__] = timed(lambda two=two_nearest: loop(source, target, two), ask.repeats)

    began = time.perf_counter()
    from probes import matching

    def ours() -> Any:
        return matching.match(source, target, ratio=RATIO, num_corr=NUM_CORR)

    ours()
    starting = time.perf_counter() - began
    seconds, matches = timed(ours, ask.repeats)
    clear = np.abs(matches.ratio - RATIO) > 1e-5  # of others a rounding decides
    for found, kept in (answer for _, answer in loops.values()):
        assert ((matches.target == found) | (matches.ratio > 1 - 1e-5)).all()
        assert (matches.kept == kept)[clear].all()
    print(
        f"{ask.pairs} pairs of {ask.side} × {ask.side} × {ask.dims}: {seconds:.3f} s, "
        f"{1e3 * seconds / ask.pairs:.2f} ms a pair; {matches.kept.mean():.0%} kept "
        f"(imports and the first call: {starting:.1f} s)"
    )
    for name, (theirs, _) in loops.items():
        print(
            f"  numpy, {name}: {theirs:.3f} s   × {theirs / seconds:.1f}   (sorted_rows: at least × {TARGET:g})"
        )


if __name__ == "__main__":
    main()
