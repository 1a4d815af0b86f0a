"""Solvers beside scikit-learn's and PyTorch's, at the same answer.

    python benchmarks/bench_fit.py [ridge] [path] [hundred] [thousand] [torch] [--quick]

Logistic regression on standardised features with a decaying spectrum and a tenth of the labels wrong, C from 1e-6 to
1e4.  `path`: 20,000 × 384, 10 classes, 45 values, beside a loop over `LogisticRegression(tol=1e-6)`, cold for each;
`hundred` and `thousand` are the same at 100 classes and at 1,000 (20 rows a class, three values).  `torch`: 20,000 ×
768, 40 values, beside PyTorch's own L-BFGS with strong Wolfe, cold for each.  The objective of every C is compared in
float64.  `ridge`: 64 values, leave-one-out scores included, beside a loop over `Ridge`; coefficients are compared.

Compiling is timed apart.  Peers run with the number of threads that is best for them here (scikit-learn's loop is
fastest with one).  CPU seconds stand beside wall seconds: where other programs run, compare those.
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from probes import logistic, ridge, scaling

Solution = tuple[np.ndarray, np.ndarray]  # weight d c, bias c


def seconds(work: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """Wall and CPU time, and the answer, waited for."""
    start = np.array([time.perf_counter(), time.process_time()])
    answer = jax.block_until_ready(work())
    return np.array([time.perf_counter(), time.process_time()]) - start, answer


def report(name: str, peer: str, first: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> None:
    wall, cpu = theirs / ours
    print(f"{name}: {ours[0]:.2f} s ({ours[1]:.2f} CPU; {first[0] - ours[0]:.1f} s more to compile at first)")
    print(f"  {peer} {theirs[0]:.2f} s ({theirs[1]:.2f} CPU): ×{wall:.1f} wall, ×{cpu:.1f} CPU")


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


def compare(
    name: str, n: int, d: int, classes: int, cs: np.ndarray, peer: str, loop: Callable[..., list[Solution]]
) -> None:
    """Our path beside a loop over the values, and every objective of both."""
    rows, labels = features_like_a_backbones(n, d, classes)
    l2s = logistic.l2_from_C(cs, n)
    solve = lambda: logistic.path(rows, labels, l2s, num_classes=classes)  # noqa: E731 - timed twice
    first, _ = seconds(solve)
    ours, found = seconds(solve)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    theirs, references = seconds(lambda: loop(rows, labels, cs))
    report(f"{name}: {n:,} × {d}, {classes} classes, {len(cs)} values of C", peer, first, ours, theirs)
    gaps = []
    for i, (weight, bias) in enumerate(references):
        mine = objective(rows, labels, found.weight[i], found.bias[i], l2s[i])
        gaps.append(mine / objective(rows, labels, weight, bias, l2s[i]) - 1)
    steps, converged = int(found.steps.sum()), int(found.converged.sum())
    print(f"  converged {converged} of {len(cs)}, {steps} evaluations, peak memory {peak:.1f} GB;", end=" ")
    print(f"objective relative to {peer}'s {min(gaps):+.1e} … {max(gaps):+.1e}")
    assert max(gaps) < 1e-6


def sklearn_loop(rows: np.ndarray, labels: np.ndarray, cs: np.ndarray) -> list[Solution]:
    with threadpool_limits(1):
        fits = [LogisticRegression(C=c, tol=1e-6, max_iter=5000).fit(rows, labels) for c in cs]
    return [(fit.coef_.T, fit.intercept_) for fit in fits]


def torch_loop(rows: np.ndarray, labels: np.ndarray, cs: np.ndarray) -> list[Solution]:
    """As a public suite for geospatial models does: full batch, strong Wolfe, every value from zero."""
    import torch

    x, y = torch.from_numpy(np.array(rows)), torch.from_numpy(np.array(labels))
    classes, solutions = int(y.max()) + 1, []
    for c in cs:
        weight = torch.zeros(x.shape[1], classes, requires_grad=True)
        bias = torch.zeros(classes, requires_grad=True)
        optimiser = torch.optim.LBFGS(
            [weight, bias],
            max_iter=1000,
            tolerance_grad=1e-6,
            tolerance_change=1e-9,
            line_search_fn="strong_wolfe",
        )

        def loss(c: float = c, weight: Any = weight, bias: Any = bias, optimiser: Any = optimiser) -> Any:
            optimiser.zero_grad()
            value = torch.nn.functional.cross_entropy(x @ weight + bias, y) + (weight**2).sum() / (
                2 * c * len(x)
            )
            value.backward()
            return value

        optimiser.step(loss)
        solutions.append((weight.detach().numpy(), bias.detach().numpy()))
    return solutions


def bench_ridge(n: int, d: int, classes: int, values: int = 64) -> None:
    rows, labels = features_like_a_backbones(n, d, classes)
    l2s = np.logspace(-4, 2, values).astype(np.float32)
    solve = lambda: ridge.path(rows, labels, l2s, num_classes=classes)  # noqa: E731 - timed twice
    first, _ = seconds(solve)
    ours, found = seconds(solve)
    targets = np.eye(classes, dtype=np.float32)[labels]

    def loop() -> list[Ridge]:
        with threadpool_limits(1):
            return [Ridge(alpha=n * l2).fit(rows, targets) for l2 in l2s]

    theirs, references = seconds(loop)
    report(
        f"ridge, {n:,} × {d}, {classes} classes, {values} values of l2", "scikit-learn", first, ours, theirs
    )
    off = max(np.abs(found.weight[i] - reference.coef_.T).max() for i, reference in enumerate(references))
    print(f"  largest difference of a coefficient {off:.1e}")
    assert off < 1e-4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="*", help="all of them where none is named")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer values")
    options = parser.parse_args()
    n, values = (2_000, 12) if options.quick else (20_000, 45)
    grid = np.logspace(-6, 4, values)
    benches = {
        "ridge": lambda: bench_ridge(n, 384, 10),
        "path": lambda: compare("path", n, 384, 10, grid, "scikit-learn", sklearn_loop),
        "hundred": lambda: compare("hundred", n, 384, 100, grid[::3], "scikit-learn", sklearn_loop),
        "thousand": lambda: compare(
            "thousand", 20_000, 384, 1000, np.array([1e-4, 1e-2, 1.0]), "scikit-learn", sklearn_loop
        ),
        "torch": lambda: compare("torch", n, 768, 10, np.logspace(-6, 4, 40), "PyTorch", torch_loop),
    }
    for name in options.which or benches:
        benches[name]()


if __name__ == "__main__":
    main()
