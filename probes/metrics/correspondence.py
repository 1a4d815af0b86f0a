"""How far matches lie from where they belong, in pixels and in patch widths.

Axes: p pairs, n source patches, m target patches, k points.  Positions are (x, y) in pixels of the frame, whose edge is
0.  All is computed on the host in 64 bit.

Of patches, after Probe3D (El Banani et al., CVPR 2024), each number of a pair by itself (`evaluate`).  A source patch
counts where its match was kept and where it is scored:

- `recall@5px`: the share of these whose match lies within 5 pixels of the truth. `recall@1p`: within one patch width.
- `auc@5px`: the area under the recall at errors 0 … 5, divided by 5; that is the mean of max(0, 1 - error / 5).
- `ceiling_*`: the same of the target patch whose centre is nearest to the truth, which no matching on this grid beats.
- `num_matches`, and `mean_error_px`, `median_error_px` of them.

A pair of which no scored match was kept has found nothing: its recalls are 0, its errors are not known (NaN), and its
ceilings are those of all its scored patches. A pair without a scored patch is left out: all its numbers are NaN.
Which patches are scored is the caller's choice: those whose truth lies in the second view (ours), or all, so that what
leaves the view is a miss (classic).

Of marked points, PCK as SPair-71k has it (Min et al. 2019): found within alpha times the longer side of the object's
box, all in original pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Num
from scipy.spatial import KDTree

from probes.errors import InputError
from probes.matching import Matches
from probes.metrics.sums import pooled, ratio

PIXELS = (1.0, 2.0, 5.0, 10.0)
PATCHES = (0.5, 1.0, 2.0, 4.0)
ALPHA = 0.1


class Points(NamedTuple):
    """Counts of marked points by pair."""

    found: Int[np.ndarray, " p"]
    visible: Int[np.ndarray, " p"]


def centres(h: int, w: int, size: float | int) -> Float[np.ndarray, "n 2"]:
    """Of the patches of an h × w grid over a frame of `size` × `size` pixels, row after row."""
    y, x = np.mgrid[:h, :w].reshape(2, -1) + 0.5
    return np.column_stack([x * size / w, y * size / h])


def errors(matched: Num[np.ndarray, "*p n 2"], truth: Num[np.ndarray, "*p n 2"]) -> Float[np.ndarray, "*p n"]:
    """The distance of each position from where it belongs; infinite where either is not a finite number."""
    apart = np.asarray(matched, np.float64) - np.asarray(truth, np.float64)
    distance = np.hypot(apart[..., 0], apart[..., 1])
    return np.where(np.isfinite(distance), distance, np.inf)


def evaluate(
    matches: Matches,
    target_centres: Float[np.ndarray, "m 2"],
    truth: Float[np.ndarray, "p n 2"],
    scored: Bool[np.ndarray, "p n"],
    *,
    patch: float | Float[np.ndarray, " p"],
    pixels: Sequence[float] = PIXELS,
    patches: Sequence[float] = PATCHES,
) -> dict[str, Float[np.ndarray, " p"]]:
    """The numbers of every pair, by name; see the module.

    `truth` is where the source patches belong and may hold anything where they are not scored; where a scored one
    is no finite number, its match is a miss and does not enter the errors. `patch` is the width of a target patch in
    pixels.
    """
    widths = np.broadcast_to(np.asarray(patch, np.float64), len(truth))
    if not (np.isfinite(widths) & (widths > 0)).all() or not all(
        0 < each < np.inf for each in (*pixels, *patches)
    ):
        raise InputError(
            f"patch is {patch}, pixels are {pixels} and patches {patches}; wanted lengths above 0"
        )
    error = errors(target_centres[matches.target], truth)
    least = np.minimum(_least(target_centres, truth, scored), error)  # not larger by a rounding either
    kept = matches.kept & scored
    possible = np.where(kept.any(axis=1, keepdims=True), kept, scored)

    found: dict[str, np.ndarray] = {}
    ceilings: dict[str, np.ndarray] = {}
    for values, unit, scale in ((pixels, "px", np.ones(len(truth))), (patches, "p", widths)):
        for threshold in values:
            limit, name = threshold * scale[:, None], f"{threshold:g}{unit}"
            for told, distance, where in ((found, error, kept), (ceilings, least, possible)):
                told[f"recall@{name}"] = ratio(
                    (where & (distance <= limit)).sum(axis=1), where.sum(axis=1), 0.0
                )
                area = np.where(where, np.maximum(1 - distance / limit, 0), 0).sum(axis=1)
                told[f"auc@{name}"] = ratio(area, where.sum(axis=1), 0.0)
    found |= {f"ceiling_{name}": values for name, values in ceilings.items()}
    found["num_matches"] = kept.sum(axis=1).astype(np.float64)
    found |= _averages(error, kept & np.isfinite(error))
    known = scored.any(axis=1)
    return {name: np.where(known, values, np.nan) for name, values in found.items()}


def pck(
    predicted: Num[np.ndarray, "p k 2"],
    truth: Num[np.ndarray, "p k 2"],
    visible: Bool[np.ndarray, "p k"],
    extent: Num[np.ndarray, " p"] | Num[np.ndarray, "p 2"],
    *,
    alpha: float = ALPHA,
) -> Points:
    """How many visible points are predicted within `alpha` times the extent: a box's longer side, or both its sides.

    All in original pixels of the second image. A prediction that is no finite number is a miss.
    """
    longer = np.asarray(extent, np.float64).reshape(len(truth), -1).max(axis=1)
    if not (np.isfinite(longer) & (longer > 0)).all() or not 0 < alpha < np.inf:
        raise InputError(
            f"alpha is {alpha} and extents go from {longer.min()} to {longer.max()}; wanted numbers above 0, the "
            "sides of boxes in pixels"
        )
    if not np.isfinite(np.where(visible[..., None], truth, 0)).all():
        raise InputError("a visible point has a coordinate that is not finite; mark it as not visible")
    within = errors(predicted, truth) <= alpha * longer[:, None]
    return Points((within & visible).sum(axis=1), visible.sum(axis=1))


def shares(points: Points) -> Float[np.ndarray, " p"]:
    """PCK of every pair; NaN where none of its points is visible."""
    return ratio(points.found, points.visible)


def value(points: Points, *, alpha: float = ALPHA) -> dict[str, float]:
    """`pck@0.1`: the mean over pairs with a visible point, each counting alike; `pck@0.1_pooled`: over all points."""
    name, each = f"pck@{alpha:g}", shares(points)
    known = ~np.isnan(each)
    mean = ratio(each[known].sum(), known.sum())
    both = {name: mean} | pooled({name: ratio(points.found.sum(), points.visible.sum())})
    return {key: float(number) for key, number in both.items()}


def nearest(
    target_centres: Float[np.ndarray, "m 2"], truth: Float[np.ndarray, "*p 2"]
) -> Int[np.ndarray, "*p"]:
    """The target patch whose centre is nearest to each position; positions that are not finite have any."""
    found: np.ndarray = KDTree(target_centres).query(np.nan_to_num(truth))[1]
    return found


def _least(
    target_centres: Float[np.ndarray, "m 2"],
    truth: Float[np.ndarray, "p n 2"],
    scored: Bool[np.ndarray, "p n"],
) -> Float[np.ndarray, "p n"]:
    """The error of the best target patch; infinite where nothing is known."""
    known = scored & np.isfinite(truth).all(axis=-1)
    least = np.full(scored.shape, np.inf)
    least[known] = KDTree(target_centres).query(truth[known])[0]
    return least


def _averages(error: Float[np.ndarray, "p n"], counted: Bool[np.ndarray, "p n"]) -> dict[str, np.ndarray]:
    """Mean and median error of each pair's matches; NaN where it has none."""
    rows = [values[where] for values, where in zip(error, counted, strict=True)]
    return {
        f"{name}_error_px": np.array([of(row) if len(row) else np.nan for row in rows])
        for name, of in (("mean", np.mean), ("median", np.median))
    }
