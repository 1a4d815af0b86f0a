"""Poses of cameras: a quaternion (w, x, y, z) and a translation that take a point into the camera's axes, R x + t.

A quaternion and its negative are one rotation; of the two the one with w ≥ 0 is given.  `probes.metrics.pose` has the
same for predictions.  Axes: p poses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from extract.errors import InputError


def relative(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(p, 7) poses that take the first camera's axes into the second's, from camera-from-world poses (p, 7)."""
    one, two = _unit(first[:, :4]), _unit(second[:, :4])
    turn = _unit(_product(two, one * [1, -1, -1, -1]))
    turn = np.where(turn[:, :1] < 0, -turn, turn)
    still = np.concatenate([np.zeros((len(first), 1)), first[:, 4:]], axis=1)
    moved = _product(_product(turn, still), turn * [1, -1, -1, -1])[:, 1:]
    return np.concatenate([turn, second[:, 4:] - moved], axis=1)


def angle_deg(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(p,) the turns between rotations (p, 4), in degrees."""
    left = _product(_unit(first) * [1, -1, -1, -1], _unit(second))
    half = np.arctan2(np.linalg.norm(left[:, 1:], axis=1), np.abs(left[:, 0]))
    return np.asarray(np.rad2deg(2 * half))


def check_pose(numbers: Any, where: str) -> np.ndarray:
    """(7,) of a quaternion and a translation; `where` is what errors call them."""
    try:
        pose = np.array([float(each) for each in numbers])
    except (TypeError, ValueError):
        pose = np.zeros(0)
    if pose.shape != (7,) or not np.isfinite(pose).all() or np.abs(pose[:4]).max() < 1e-9:
        raise InputError(
            f"{where} has the pose {numbers}; it should be a quaternion (w, x, y, z), not 0, and a translation"
        )
    return pose


def _unit(quaternions: np.ndarray) -> np.ndarray:
    return np.asarray(quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True))


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Hamilton's, of quaternions (p, 4)."""
    (a, b, c, d), (w, x, y, z) = first.T, second.T
    return np.stack(
        [
            a * w - b * x - c * y - d * z,
            a * x + b * w + c * z - d * y,
            a * y - b * z + c * w + d * x,
            a * z + b * y - c * x + d * w,
        ],
        axis=1,
    )
