"""Intervals and comparisons beside plain loops.

    OMP_NUM_THREADS=2 python benchmarks/bench_statistics.py [--quick] [--repeats 5]

1,000 resamples of 10,000 samples: accuracy, mIoU (an image has its own intersections and unions of 21 classes), and
mean average precision of 20 classes from 0.5 to 30 % positives. The loops draw rows with replacement, as one would
write it, and the ends of both intervals may differ by a tenth of their width; scikit-learn's average precision is
given the same few resamples as weights, and its interval must be the same. Then what a board costs: every pair of
20 rows, from scores in memory and from stored ones. Medians; CPU seconds stand beside wall seconds: where other
programs run, compare those.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

from probes import ranked, resampling, statistics
from visbench import comparing, results, samples
from visbench.record import Record
from visbench.separable import Paired

RESAMPLES, CLASSES, LABELS = 1000, 21, 20


def seconds(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Median wall and CPU time, and the last answer."""
    walls, cpus, answer = [], [], None
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        answer = work()
        walls.append(time.perf_counter() - start[0])
        cpus.append(time.process_time() - start[1])
    return median(walls), median(cpus), answer


def report(name: str, ours: tuple[float, float, Any], theirs: tuple[float, float] | None = None) -> None:
    beside = ""
    if theirs is not None:
        beside = (
            f"; a loop {theirs[0]:.2f} s: ×{theirs[0] / ours[0]:.0f} wall, ×{theirs[1] / ours[1]:.0f} CPU"
        )
    print(f"{name}: {ours[0]:.4f} s ({ours[1]:.4f} CPU){beside}")


def same_within_a_tenth(found: Any, expected: Any) -> None:
    width = expected[1] - expected[0]
    assert np.abs(np.subtract(found, expected)).max() < 0.1 * width, (found, expected)


def loop(rows: np.ndarray, value: Callable[[np.ndarray], Any]) -> np.ndarray:
    rng = np.random.default_rng(1)
    values = [value(rows[rng.integers(0, len(rows), len(rows))].sum(0)) for _ in range(RESAMPLES)]
    return np.quantile(values, [0.025, 0.975])


def bench_sums(name: str, rows: np.ndarray, value: Callable[[np.ndarray], Any], repeats: int) -> None:
    ours = seconds(lambda: statistics.bootstrap(rows, value), repeats)
    theirs = seconds(lambda: loop(rows, lambda sums: value(sums[None])[0]), 1)
    same_within_a_tenth(ours[2], theirs[2])
    report(name, ours, theirs[:2])


def miou(sums: np.ndarray) -> np.ndarray:
    return np.asarray((sums[:, :CLASSES] / sums[:, CLASSES:]).mean(1))


def bench_map(n: int, repeats: int, some: int = 10) -> None:
    rng = np.random.default_rng(0)
    targets = rng.random((n, LABELS)) < np.geomspace(0.005, 0.3, LABELS)
    scores = rng.standard_normal((n, LABELS)) + 1.5 * targets

    def sklearn_loop() -> np.ndarray:
        distinct, counts = np.unique(np.hstack([scores, targets]), axis=0, return_counts=True)
        given = distinct[:, :LABELS], distinct[:, LABELS:].astype(int)
        values = []
        for weights in next(resampling.resampled(counts, some, 0)):
            each = [
                average_precision_score(given[1][:, j], given[0][:, j], sample_weight=weights)
                for j in range(LABELS)
                if weights @ given[1][:, j]
            ]
            values.append(np.mean(each))
        return np.quantile(values, [0.025, 0.975])

    ours = seconds(lambda: ranked.bootstrap_average_precision(scores, targets), repeats)
    theirs = seconds(sklearn_loop, 1)
    few = ranked.bootstrap_average_precision(scores, targets, resamples=some)["macro_map"]
    np.testing.assert_allclose(few, theirs[2], rtol=1e-9)
    scale = RESAMPLES / some
    report("mAP, micro, macro and per class (the loop: macro)", ours, (theirs[0] * scale, theirs[1] * scale))


def bench_board(n: int, repeats: int, rows: int = 20) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((n, rows)) + np.linspace(0, 0.02, rows)
    for name, scores in (("scores", values), ("hits", values > 0.3)):
        ours = seconds(lambda scores=scores: statistics.pairwise_bootstrap(scores), repeats)
        report(f"every pair of {rows} rows, {name}", ours)
    one = statistics.paired_bootstrap(values[:, 0], values[:, -1], resamples=10_000).p
    assert abs(statistics.pairwise_bootstrap(values, resamples=10_000)[0, -1] - one) < 0.03
    with TemporaryDirectory() as place:
        path, ids = Path(place) / "r.jsonl", rng.integers(0, 256, (n, 16), np.uint8)
        for number in range(rows):
            kept = values[:, number] > 0.3
            fields = {"task": "t", "dataset": "d", "backbone": f"b{number}", "headline": "top1"}
            reference = samples.write(path, {"top1": kept}, ids)
            metrics = {"top1": float(kept.mean())}
            results.append(path, [Record.from_dict({**fields, "metrics": metrics, "samples": reference})])
        size = sum(
            each.stat().st_size for each in (Path(place) / "r.samples").rglob("scores/**/*") if each.is_file()
        )
        records = results.read(path)
        stored = seconds(lambda: Paired.from_results(records, path)(records[0], records[1]), repeats)
        report(f"verdicts of a board of {rows} rows from stored hits", stored)
        print(f"  {size / rows / n:.3f} bytes a sample, and 16 for its id once a scored split")
        report("visbench.compare of two", seconds(lambda: comparing.compare("b0", "b19", path), repeats))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the samples")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    n, rng = 1_000 if options.quick else 10_000, np.random.default_rng(0)
    hits = np.stack([rng.random(n) < 0.8, np.ones(n)], axis=1)
    bench_sums("accuracy", hits, lambda sums: sums[:, 0] / sums[:, 1], options.repeats)
    union = rng.integers(1, 2500, (n, CLASSES))
    counts = np.concatenate([(union * rng.beta(4, 2, union.shape)).astype(int), union], axis=1)
    bench_sums("mIoU of 21 classes", counts, miou, options.repeats)
    bench_map(n, options.repeats)
    bench_board(n, options.repeats)


if __name__ == "__main__":
    main()
