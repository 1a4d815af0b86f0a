"""Solvers beside scikit-learn's, at the same answer.

    OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2 python benchmarks/bench_fit.py [--quick] [--classes 10] [--values 45]

Logistic regression, 20,000 × 384 standardised features with a decaying spectrum and a tenth of the labels wrong,
C from 1e-6 to 1e4: `logistic.path` beside a loop over `LogisticRegression(tol=1e-6)`, cold for each C. The
objective of every C is compared in float64. Ridge, 64 values: `ridge.path`, leave-one-out scores included, beside
a loop over `Ridge`; coefficients are compared. Compiling is timed apart. CPU seconds stand beside wall seconds:
where other programs run, compare those.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from probes import logistic, ridge, scaling


def seconds(work: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """Wall and CPU time, and the answer, waited for."""
    start = np.array([time.perf_counter(), time.process_time()])
    answer = jax.block_until_ready(work())
    return np.array([time.perf_counter(), time.process_time()]) - start, answer


def report(name: str, first: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> None:
    wall, cpu = theirs / ours
    print(f"{name}: {ours[0]:.2f} s ({ours[1]:.2f} CPU; {first[0] - ours[0]:.1f} s more to compile at first)")
    print(f"  scikit-learn {theirs[0]:.2f} s ({theirs[1]:.2f} CPU): ×{wall:.1f} wall, ×{cpu:.1f} CPU")


def features_like_a_backbones(n: int, d: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, classes, n)
    centres = 0.35 * rng.standard_normal((classes, d))
    rows = (centres[labels] + rng.standard_normal((n, d))) / np.sqrt(np.arange(1, d + 1))
    rows = rows @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    wrong = rng.random(n) < 0.1
    labels[wrong] = rng.integers(0, classes, wrong.sum())
    (standardised,) = scaling.standardise(rows.astype(np.float32))
    return np.asarray(standardised), labels


def objective(rows: np.ndarray, labels: np.ndarray, weight: Any, bias: Any, l2: float) -> float:
    logits = np.float64(rows) @ np.float64(weight) + np.float64(bias)
    top = logits.max(1)
    losses = top + np.log(np.exp(logits - top[:, None]).sum(1)) - logits[np.arange(len(rows)), labels]
    return float(losses.mean() + l2 / 2 * (np.float64(weight) ** 2).sum())


def bench_logistic(n: int, d: int, classes: int, values: int) -> None:
    rows, labels = features_like_a_backbones(n, d, classes)
    cs = np.logspace(-6, 4, values)
    l2s = logistic.l2_from_C(cs, n)
    solve = lambda: logistic.path(rows, labels, l2s, num_classes=classes)  # noqa: E731 - timed twice
    first, _ = seconds(solve)
    ours, found = seconds(solve)

    def loop() -> list[LogisticRegression]:
        return [LogisticRegression(C=c, tol=1e-6, max_iter=5000).fit(rows, labels) for c in cs]

    theirs, references = seconds(loop)
    report(f"logistic, {n:,} × {d}, {classes} classes, {values} values of C", first, ours, theirs)
    gaps = []
    for i, reference in enumerate(references):
        mine = objective(rows, labels, found.weight[i], found.bias[i], l2s[i])
        peer = objective(rows, labels, reference.coef_.T, reference.intercept_, l2s[i])
        gaps.append((mine - peer) / peer)
    print(
        f"  converged {int(found.converged.sum())} of {values}, {int(found.steps.sum())} evaluations;",
        end=" ",
    )
    print(f"objective relative to scikit-learn's {min(gaps):+.1e} … {max(gaps):+.1e}")
    assert max(gaps) < 1e-6


def bench_ridge(n: int, d: int, classes: int, values: int = 64) -> None:
    rows, labels = features_like_a_backbones(n, d, classes)
    l2s = np.logspace(-4, 2, values).astype(np.float32)
    solve = lambda: ridge.path(rows, labels, l2s, num_classes=classes)  # noqa: E731 - timed twice
    first, _ = seconds(solve)
    ours, found = seconds(solve)
    targets = np.eye(classes, dtype=np.float32)[labels]
    theirs, references = seconds(lambda: [Ridge(alpha=n * l2).fit(rows, targets) for l2 in l2s])
    report(f"ridge, {n:,} × {d}, {classes} classes, {values} values of l2", first, ours, theirs)
    off = max(np.abs(found.weight[i] - reference.coef_.T).max() for i, reference in enumerate(references))
    print(f"  largest difference of a coefficient {off:.1e}")
    assert off < 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer values")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--values", type=int, default=45, help="of C")
    options = parser.parse_args()
    n, values = (2_000, 12) if options.quick else (20_000, options.values)
    bench_ridge(n, 384, options.classes)
    bench_logistic(n, 384, options.classes, values)


if __name__ == "__main__":
    main()
