"""Exact nearest neighbours beside faiss and scikit-learn, where they are installed.

    OMP_NUM_THREADS=2 python benchmarks/bench_knn.py [--quick] [--queries 4096]

50,000 × 768 float32 rows of unit length, the 20 nearest by cosine, first for `--queries` of them and then for
all against all. The peers' time grows with the queries, so for the second they are multiplied up. The neighbours
found are compared. CPU seconds stand beside wall seconds: where other programs run, compare those.
"""

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from probes import knn

K = 20


def seconds(work: Callable[[], Any]) -> tuple[np.ndarray, Any]:
    """Wall and CPU time, and the answer."""
    start = np.array([time.perf_counter(), time.process_time()])
    answer = work()
    return np.array([time.perf_counter(), time.process_time()]) - start, answer


def faiss_flat(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    faiss = importlib.import_module("faiss")
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)
    return lambda queries: index.search(queries, K)[1]


def scikit_learn_brute(rows: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    neighbours = importlib.import_module("sklearn.neighbors")
    index = neighbours.NearestNeighbors(n_neighbors=K, algorithm="brute", metric="cosine").fit(rows)
    return lambda queries: index.kneighbors(queries, return_distance=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--queries", type=int, default=4096, help="given to the peers")
    options = parser.parse_args()
    n = 5_000 if options.quick else 50_000
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 768), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    some = rows[: options.queries]

    knn.search(some, rows, k=K)  # compiles
    ours, (_, found) = seconds(lambda: knn.search(some, rows, k=K))
    whole, _ = seconds(lambda: knn.search(rows, rows, k=K))
    print(f"knn.search in {n:,} × 768: {len(some):,} queries {ours[0]:.2f} s ({ours[1]:.2f} CPU), ", end="")
    print(f"all {whole[0]:.2f} s ({whole[1]:.2f} CPU)")
    for make in (faiss_flat, scikit_learn_brute):
        try:
            search = make(rows)
        except ModuleNotFoundError as missing:
            print(f"  {make.__name__}: {missing.name} is not installed")
            continue
        search(some[:64])
        theirs, answer = seconds(lambda search=search: search(some))
        same = np.mean([len(set(a) & set(b)) / K for a, b in zip(found, answer, strict=True)])
        (wall, cpu), (all_wall, all_cpu) = theirs / ours, theirs / whole * n / len(some)
        print(
            f"  {make.__name__} {theirs[0]:.2f} s ({theirs[1]:.2f} CPU): ×{wall:.1f} wall, ×{cpu:.1f} CPU;",
            end=" ",
        )
        print(f"all ×{all_wall:.1f} wall, ×{all_cpu:.1f} CPU; {same:.4%} of the neighbours the same")
        assert same > 0.9999


if __name__ == "__main__":
    main()
