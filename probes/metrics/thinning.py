"""Boundaries brought to a width of one pixel.

The two-pass thinning of Guo and Hall (Communications of the ACM, 1989) as Lam, Lee and Suen (1992, page 879)
state it, repeated until nothing changes: MATLAB's `bwmorph(…, "thin", Inf)`, which the Berkeley benchmark
uses, and `skimage.morphology.thin`.  Sixty-four maps lie in the bits of one word and are thinned together, and
a pixel is looked at again only where something beside it has changed.
"""

from __future__ import annotations

from functools import reduce
from itertools import starmap
from operator import and_, or_

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

_WORD = 64
_FIRST = np.array(
    [2**bits - 1 for bits in range(_WORD + 1)], np.uint64
)  # the lowest bits set: none, one, two …


def thin(mask: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """One map thinned; beyond its rim there is nothing."""
    thinned: np.ndarray = _thin(mask.astype(np.uint64)) != 0
    return thinned


def thin_levels(
    prediction: Float[np.ndarray, "h w"], thresholds: Float[np.ndarray, " t"]
) -> list[Int[np.ndarray, " _"]]:
    """For each of the ascending thresholds the flat positions that are left of what reaches it."""
    reached = np.searchsorted(thresholds, prediction.ravel(), side="right").reshape(prediction.shape)
    levels: list[np.ndarray] = []
    for start in range(0, len(thresholds), _WORD):
        words = _thin(_FIRST[np.clip(reached - start, 0, _WORD)]).ravel()
        some = np.flatnonzero(words)
        bits = range(min(_WORD, len(thresholds) - start))
        levels.extend(some[(words[some] >> np.uint64(bit)) & np.uint64(1) == 1] for bit in bits)
    return levels


def _thin(words: UInt64[np.ndarray, "h w"]) -> UInt64[np.ndarray, "h w"]:
    height, width = words.shape
    plane = np.zeros((height + 2, width + 2), np.uint64)
    plane[1:-1, 1:-1] = words
    flat = plane.ravel()
    row = width + 2
    around = np.array([1, 1 - row, -row, -1 - row, -1, row - 1, row, row + 1])  # from the east, turning left
    turns = np.stack([around, np.roll(around, -4)])  # the second pass is the first turned by half a circle
    pending = np.repeat((flat != 0)[None], 2, axis=0)  # which pixels each pass has yet to look at
    turn = 0
    while pending.any():
        at = np.flatnonzero(pending[turn])
        pending[turn] = False
        here = flat[at]
        removed = here & _removable(flat[turns[turn][:, None] + at])
        changed = at[removed != 0]
        flat[at] = here & ~removed
        beside = (changed + np.append(around, 0)[:, None]).ravel()
        pending[:, beside[flat[beside] != 0]] = True
        turn = 1 - turn
    return plane[1:-1, 1:-1]


def _removable(x: UInt64[np.ndarray, "8 n"]) -> UInt64[np.ndarray, " n"]:
    """Conditions G1, G2 and G3, bit by bit, from the neighbours x1 … x8."""
    after = np.roll(x, -1, axis=0)
    crossings = list(~x[0::2] & (x[1::2] | after[1::2]))  # whether a run of the boundary begins at each side
    once = reduce(or_, crossings) & ~_two(crossings)
    first, second = list(x[0::2] | x[1::2]), list(x[1::2] | after[1::2])
    few = ~(reduce(and_, first) & reduce(and_, second))  # the smaller of both counts is at most three
    removable: np.ndarray = once & _two(first) & _two(second) & few & ~((x[1] | x[2] | ~x[7]) & x[0])
    return removable


def _two(sides: list[UInt64[np.ndarray, " n"]]) -> UInt64[np.ndarray, " n"]:
    """Whether at least two of four are set."""
    a, b, c, d = sides
    return reduce(or_, starmap(and_, ((a, b), (c, d), (a | b, c | d))))
