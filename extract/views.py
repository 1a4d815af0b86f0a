"""The second views of synthetic pairs: an image's square crop, seen through a homography made for it.

Each corner of the S × S frame is moved by uniform(-1, 1) · max_warp · S a coordinate, and the homography is the one
that takes the four corners there.  Points are (x, y) from the first pixel's edge; its centre is (0.5, 0.5).

The eight numbers come from a digest of the seed and the image's row id: they are the same on every machine, in any
order and beside any other images.  Every max_warp scales the same eight, so that along a curve over max_warp each
corner moves on one line.  From 0.25 on it happens that the corners make no convex quadrilateral any more, and the view
would be folded or mirrored; then the next eight numbers are taken.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from extract.errors import InputError
from extract.memo import derived_id

RULE = "corners-by-digest+pillow-bicubic/1"  # part of every view's identity: a change of what is made counts it up
LARGEST = 0.5  # where opposite corners can meet
FLATTEST = 0.01  # of the frame, twice the triangle of a corner and its neighbours: at least 1 - 4 max_warp
_CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])  # around the frame


@dataclass(frozen=True)
class Warp:
    """How far corners move at most, as a share of the frame's side, and which of the many draws it is."""

    max_warp: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.max_warp < LARGEST:
            raise InputError(
                f"max_warp is {self.max_warp}; it is the share of the frame's side that a corner moves at most, from 0 "
                f"to less than {LARGEST}"
            )

    def homography(self, row_id: bytes, size: int) -> np.ndarray:
        """(3, 3) float64: takes points of the frame of `size` × `size` pixels to the second view.

        Scaled so that the third coordinate is positive in the whole frame and the last entry is 1.
        """
        if self.max_warp == 0:
            return np.eye(3)
        attempt = 0
        while True:
            corners = _CORNERS + self.max_warp * displacements(row_id, self.seed, attempt)
            if _turns(corners).min() > FLATTEST:
                return _from_corners(corners * size, size)
            attempt += 1

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a pixel, beside the image and its crop."""
        return {
            "max_warp": float(self.max_warp),
            "seed": int(self.seed),
            "rule": RULE,
            "interpolation": "bicubic",
            "outside": "black",
        }

    def view_id(self, row_id: bytes, size: int, **more: Any) -> bytes:
        """The row id of the view: of the image, the warp, the frame, and of `more` (JSON values), such as the crop."""
        what = {"view": self.describe(), "size": int(size), **more}
        return derived_id(row_id, json.dumps(what, sort_keys=True))

    def apply(self, pixels: np.ndarray, homography: np.ndarray) -> np.ndarray:
        """(S, S, 3) uint8 of the second view, bicubic; black where the frame does not reach.

        Pillow's cubic has a = -1, so that what lies between pixels may be drawn up to 0.1 pixel aside. A warp that
        moves nothing gives `pixels` itself.
        """
        side = len(pixels)
        if pixels.shape != (side, side, 3) or pixels.dtype != np.uint8 or not side:
            raise InputError(
                f"a view is made of a square uint8 crop (S, S, 3), not of {pixels.shape} {pixels.dtype}"
            )
        if np.array_equal(homography, np.eye(3)):
            return pixels
        backwards = np.linalg.inv(homography)  # Pillow asks where each pixel comes from, from edges as we do
        with np.errstate(divide="ignore", invalid="ignore"):
            coefficients = (backwards / backwards[2, 2]).reshape(-1)[:8]
        if not np.isfinite(coefficients).all():
            raise InputError(
                f"the homography {homography.tolist()} brings a point of the horizon to (0, 0); take a smaller warp"
            )
        image = Image.fromarray(np.ascontiguousarray(pixels))
        seen = image.transform(
            (side, side),
            Image.Transform.PERSPECTIVE,
            coefficients.tolist(),
            resample=Image.Resampling.BICUBIC,
            fillcolor=(0, 0, 0),
        )
        return np.array(seen)  # one that may be written to, as torch wants it


def displacements(row_id: bytes, seed: int, attempt: int = 0) -> np.ndarray:
    """(4, 2) numbers in [-1, 1): how the corners move, upper left, upper right, lower right, lower left."""
    told = json.dumps([int(seed), attempt]).encode() + row_id
    digest = hashlib.blake2b(told, digest_size=64, person=b"homography").digest()
    whole = np.frombuffer(digest, "<u8") >> np.uint64(11)  # 53 bits: what a float64 holds
    return (whole.astype(np.float64) * 2.0**-52 - 1).reshape(4, 2)


def apply_homography(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(…, 2) points (x, y) through a (3, 3) homography; NaN on the horizon and behind it.

    Behind is where the third coordinate is negative: the matrix comes with the sign that `Warp` gives it.
    """
    points = np.asarray(points, np.float64)
    moved = points @ homography[:, :2].T + homography[:, 2]
    depth = moved[..., 2:]
    with np.errstate(over="ignore"):
        seen = np.divide(moved[..., :2], depth, out=np.full(points.shape, np.nan), where=depth > 0)
    return np.where(np.isfinite(seen).all(axis=-1, keepdims=True), seen, np.nan)


def _turns(corners: np.ndarray) -> np.ndarray:
    """(4,) twice the signed area of each corner with its neighbours; all are positive where nothing is folded."""
    before = corners - np.roll(corners, 1, axis=0)
    after = np.roll(corners, -1, axis=0) - corners
    turns: np.ndarray = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return turns


def _from_corners(corners: np.ndarray, size: int) -> np.ndarray:
    """The homography of the square's corners to these four, in closed form (Heckbert 1989)."""
    upper_left, upper_right, lower_right, lower_left = corners
    right, below = upper_right - lower_right, lower_left - lower_right
    bent = upper_left - upper_right + lower_right - lower_left
    whole = right[0] * below[1] - right[1] * below[0]
    across = (bent[0] * below[1] - bent[1] * below[0]) / whole
    down = (right[0] * bent[1] - right[1] * bent[0]) / whole
    matrix = np.empty((3, 3))
    matrix[:2, 0] = (upper_right - upper_left + across * upper_right) / size
    matrix[:2, 1] = (lower_left - upper_left + down * lower_left) / size
    matrix[:2, 2] = upper_left
    matrix[2] = across / size, down / size, 1
    return matrix
