"""Boundaries: seconds a picture, its parts against others, and what annotators agree on.

    OMP_NUM_THREADS=1 python benchmarks/bench_boundaries.py [--pictures 4] [--bsds FOLDER]

Pictures of 321×481 with outlines by five annotators, drawn here, and blurred outlines with texture as prediction,
at 99 thresholds.  Thinning all thresholds at once is held against `skimage.morphology.thin` for each, and must give
the same pixels; matching against the assignment of least total distance (`min_weight_full_bipartite_matching`), and
must find as many pairs.  With `--bsds` the annotators of a BSDS500 folder are scored against each other: F is 0.80
in the paper.  CPU seconds.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from skimage.morphology import thin

from probes.metrics import boundaries
from probes.metrics.boundaries import Tally
from probes.metrics.matching import Marks, Plane, match
from probes.metrics.thinning import thin_levels

SIZE, PEOPLE, OUTLIER = (321, 481), 5, 100


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


def picture(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[: SIZE[0], : SIZE[1]]
    truth = np.zeros((*SIZE, PEOPLE), bool)
    for _ in range(12):
        cy, cx, r = rng.uniform(0, SIZE[0]), rng.uniform(0, SIZE[1]), rng.uniform(15, 120)
        for each in range(PEOPLE):
            if rng.random() < 0.7:
                dy, dx = rng.normal(0, 1.5, 2)
                away = np.hypot(y - cy - dy, x - cx - dx)
                truth[..., each] |= thin((away < r) & (away >= r - 2))
    texture = np.abs(gaussian_filter(rng.standard_normal(SIZE), 3))
    soft = gaussian_filter(truth.mean(-1), 3)
    return truth, np.clip(soft / soft.max() + 0.4 * texture / texture.max(), 0, 1)


def assigned(first: np.ndarray, second: np.ndarray, reach: float) -> int:
    """How many pairs the assignment of least distance has, pixels left alone at `OUTLIER` times the reach."""
    plane = Plane(SIZE, reach)
    a, b = (Marks(plane, np.flatnonzero(each)) for each in (first, second))
    number = b.number[a.at[:, None] + plane.steps]
    rows, steps = np.nonzero(number >= 0)
    dy, dx = np.divmod(plane.steps + plane.margin * (plane.row + 1), plane.row) - np.array(
        [[plane.margin]] * 2
    )
    alone = np.arange(len(a))
    cost = np.concatenate([np.hypot(dy, dx)[steps] + 1e-3, np.full(len(a), OUTLIER * reach)])
    at = np.concatenate([rows, alone]), np.concatenate([number[rows, steps], len(b) + alone])
    columns = min_weight_full_bipartite_matching(csr_array((cost, at), shape=(len(a), len(b) + len(a))))[1]
    return int((columns < len(b)).sum())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=4)
    parser.add_argument("--bsds", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    pictures = [picture(rng) for _ in range(options.pictures)]
    reach, cuts = boundaries.max_distance(SIZE), boundaries.thresholds()

    taken, _ = seconds(
        lambda: [boundaries.evaluate(said, true, max_distance=reach) for true, said in pictures]
    )
    print(f"a picture, {len(cuts)} thresholds, {PEOPLE} annotators: {taken / len(pictures):.2f} s")

    truth, said = pictures[0]
    ours, levels = seconds(lambda: thin_levels(said, cuts))
    theirs, expected = seconds(lambda: [np.flatnonzero(thin(said >= cut)) for cut in cuts])
    assert all(np.array_equal(*pair) for pair in zip(levels, expected, strict=True))
    print(f"thinning: {ours:.2f} s; scikit-image {theirs:.2f} s: ×{theirs / ours:.1f}")

    masks = [np.isin(np.arange(said.size), levels[level]).reshape(SIZE) for level in (9, 29, 49)]
    plane = Plane(SIZE, reach)
    people = [truth[..., each] for each in range(PEOPLE)]

    def matched() -> list[int]:
        drawn = [Marks(plane, np.flatnonzero(each)) for each in people]
        return [
            int((match(Marks(plane, np.flatnonzero(mask)), each) >= 0).sum())
            for mask in masks
            for each in drawn
        ]

    ours, found = seconds(matched)
    theirs, most = seconds(lambda: [assigned(mask, each, reach) for mask in masks for each in people])
    assert found == most, (found, most)
    print(
        f"matching, {len(found)} pairs of maps: {ours:.2f} s; least distance {theirs:.2f} s: ×{theirs / ours:.1f}"
    )

    if options.bsds:
        from extract.datasets.bsds import open_bsds

        for split, images in open_bsds(options.bsds).items():
            drawn = [images.targets.read(row) for row in range(len(images))]
            each = [boundaries.agreement(d, max_distance=boundaries.max_distance(d.shape[:2])) for d in drawn]
            total = Tally(*(np.sum(leaf, axis=0) for leaf in zip(*each, strict=True)))
            print(
                f"people on {split} ({len(images)} pictures): F {float(boundaries.pooled(total)['ods']):.4f}"
            )


if __name__ == "__main__":
    main()
