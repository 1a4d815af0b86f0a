"""Camera poses, and how far a predicted one is off.  Axes: p pairs.

A pose is seven numbers: a unit quaternion (w, x, y, z) and a translation in metres, which take a point of the world
into a camera's own axes, as R x + t.  A relative pose takes the first camera's axes into the second's.  A quaternion
and its negative are one rotation; of the two the one with w ≥ 0 is meant.  All is computed on the host in 64 bit.

The error of a rotation is the angle of the turn that is left between it and the truth (0 to 180 degrees); the error of
a translation is the distance between the two, in metres.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from probes.errors import InputError
from probes.metrics.sums import ratio

LIMITS = (15, 30)  # degrees
MEASURES = ("rotation_error_deg", "translation_error_m")


def check_poses(poses: Any, name: str = "poses") -> Float[np.ndarray, "p 7"]:
    """Finite poses, their quaternions of length 1 and with w ≥ 0."""
    array = np.asarray(poses)
    if array.ndim != 2 or array.shape[1] != 7 or not len(array) or array.dtype.kind not in "fiu":
        raise InputError(
            f"{name} have shape {array.shape} and type {array.dtype}; wanted seven numbers each, a quaternion "
            "(w, x, y, z) and a translation"
        )
    array = array.astype(np.float64)
    bad = ~np.isfinite(array).all(axis=1) | (np.abs(array[:, :4]).max(axis=1) < 1e-9)
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"{name} hold {array[row].tolist()} in row {row}, which is no pose; leave that row out or mend it"
        )
    return canonical(array)


def canonical(poses: Float[np.ndarray, "*p n"]) -> Float[np.ndarray, "*p n"]:
    """Poses, or quaternions alone, with a quaternion of length 1 whose first number that is not 0 is positive."""
    quaternion = poses[..., :4] / np.linalg.norm(poses[..., :4], axis=-1, keepdims=True)
    first = np.take_along_axis(quaternion, (quaternion != 0).argmax(axis=-1)[..., None], axis=-1)
    return np.concatenate([np.where(first < 0, -quaternion, quaternion) + 0.0, poses[..., 4:]], axis=-1)


def multiply(
    first: Float[np.ndarray, "*p 4"], second: Float[np.ndarray, "*p 4"]
) -> Float[np.ndarray, "*p 4"]:
    """Hamilton's product: the rotation that turns by `second` and then by `first`."""
    (a, b, c, d), (w, x, y, z) = np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)
    return np.stack(
        [
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ],
        axis=-1,
    )


def conjugate(quaternion: Float[np.ndarray, "*p 4"]) -> Float[np.ndarray, "*p 4"]:
    """The rotation backwards, of a quaternion of length 1."""
    return np.asarray(quaternion * [1.0, -1.0, -1.0, -1.0])


def rotate(
    quaternion: Float[np.ndarray, "*p 4"], points: Float[np.ndarray, "*p 3"]
) -> Float[np.ndarray, "*p 3"]:
    """Points turned by quaternions of length 1."""
    still = np.concatenate([np.zeros_like(points[..., :1]), points], axis=-1)
    turned = multiply(multiply(quaternion, still), conjugate(quaternion))
    return np.asarray(turned[..., 1:])


def relative(
    first: Float[np.ndarray, "*p 7"], second: Float[np.ndarray, "*p 7"]
) -> Float[np.ndarray, "*p 7"]:
    """From two camera-from-world poses the one that takes the first camera's axes into the second's: T₂ T₁⁻¹."""
    first, second = canonical(first), canonical(second)
    turn = multiply(second[..., :4], conjugate(first[..., :4]))
    return canonical(np.concatenate([turn, second[..., 4:] - rotate(turn, first[..., 4:])], axis=-1))


def angle_deg(first: Float[np.ndarray, "*p 4"], second: Float[np.ndarray, "*p 4"]) -> Float[np.ndarray, "*p"]:
    """The turn between two rotations, in degrees, whichever sign their quaternions have.

    From the sine and the cosine of half of it: the arc cosine alone loses half of the digits at 0.
    """
    left = multiply(conjugate(canonical(first)), canonical(second))
    half = np.arctan2(np.linalg.norm(left[..., 1:], axis=-1), np.abs(left[..., 0]))
    return np.asarray(np.rad2deg(2 * half))


def mean_pose(poses: Float[np.ndarray, "p 7"]) -> Float[np.ndarray, " 7"]:
    """The chordal mean of the rotations and the mean translation.

    The rotation whose matrix is the nearest to all in squares: the first axis of the quaternions' second moments
    (Markley et al., Journal of Guidance, Control, and Dynamics 2007), which knows no signs.
    """
    quaternions = canonical(poses)[:, :4]
    _, axes = np.linalg.eigh(quaternions.T @ quaternions)
    return canonical(np.concatenate([axes[:, -1], poses[:, 4:].mean(axis=0)]))


def errors(
    predicted: Float[np.ndarray, "p 7"], target: Float[np.ndarray, "p 7"]
) -> dict[str, Float[np.ndarray, " p"]]:
    """`rotation_error_deg` and `translation_error_m` of each pair; NaN where a prediction is not finite."""
    predicted, target = (np.asarray(each, np.float64) for each in (predicted, target))
    rotation = angle_deg(predicted[:, :4], target[:, :4])
    return dict(
        zip(MEASURES, (rotation, np.linalg.norm(predicted[:, 4:] - target[:, 4:], axis=1)), strict=True)
    )


def value(
    rotation_error_deg: Float[np.ndarray, " p"],
    translation_error_m: Float[np.ndarray, " p"],
    times: Float[np.ndarray, "*B p"] | None = None,
) -> dict[str, Float[np.ndarray, "*B"]]:
    """Means of both errors, the median of the first and the shares of pairs within 15° and 30°.

    With `times` every pair counts so often, as in a resample; NaN where none does.
    """
    times = np.ones(len(rotation_error_deg)) if times is None else times
    count = times.sum(axis=-1)

    def mean(each: np.ndarray) -> np.ndarray:
        return ratio(times @ each, count)

    return {
        "rotation_error_deg": mean(rotation_error_deg),
        "rotation_error_median_deg": _median(rotation_error_deg, times),
        **{f"within_{limit}": mean((rotation_error_deg <= limit).astype(np.float64)) for limit in LIMITS},
        "translation_error_m": mean(translation_error_m),
    }


def _median(each: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The median of numbers that count so often: the mean of the middle two where they are even."""
    order = np.argsort(each, kind="stable")
    upto, each = np.cumsum(times[..., order], axis=-1), each[order]
    half = upto[..., -1:] / 2
    low, high = ((upto >= half).argmax(axis=-1), (upto > half).argmax(axis=-1))
    return np.where(half[..., 0] > 0, (each[low] + each[high]) / 2, np.nan)
