"""Scored pictures that are nearly one that trains: saved again, resized, brightened a little.

Equal bytes are found by their digests; these are found by their features.  A copy is far nearer to its original
than to the original's runner-up.  How near chance alone brings a neighbour depends on the intrinsic dimension D:
the ratio of the two distances exceeds x with probability x^-D (Facco et al., Scientific Reports 2017), and its
median over all scored pictures tells D.  Only what chance would hardly show once in the whole set is named.
"""

from __future__ import annotations

import numpy as np

from probes import knn
from visbench.outcome import Rows

CHANCE = 0.01  # expected false finds in a set
LEAST = 2.0  # ratio of distances; copies saved at quality 60 were seen at 3 to 7, other photographs up to 1.5
MOST_PAIRS = 2 * 10**8  # a second or so; larger sets are not searched


def near_copies(scored: Rows, trained: Rows) -> np.ndarray:
    """(m, 2) pairs of a scored row and the training row it nearly copies; exact copies are not among them."""
    if len(trained) < 2 or len(scored) * len(trained) > MOST_PAIRS:
        return np.empty((0, 2), int)
    similarity, index = knn.search(scored.features, trained.features, k=2)
    near, next_near = np.sqrt(np.maximum(1 - similarity.astype(np.float64), 1e-9)).T
    ratio = next_near / near
    dimension = np.log(2) / max(np.log(np.median(ratio)), 1e-9)
    threshold = max(LEAST, (len(scored) / CHANCE) ** (1 / dimension))
    same = (scored.ids == trained.ids[index[:, 0]]).all(axis=1)
    rows = np.flatnonzero((ratio > threshold) & ~same)
    return np.column_stack([rows, index[rows, 0]])
