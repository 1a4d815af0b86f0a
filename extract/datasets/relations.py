"""How the points of one image lie in another, in pixels of the upright images: (x, y), from the first pixel's edge.

What a pair's `truth["relation"]` is: either something that knows of every point (`truth`), or keypoints.  In these
coordinates the centre of the first pixel is (0.5, 0.5).  Most files count from that centre instead, as OpenCV and
HPatches do: their `origin` is "index", ours is "edge", and what is read is brought from one to the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from extract.errors import InputError
from extract.images import content_bytes
from extract.maps.base import RefusedMapError, as_tuple, refuse_channels, without_alpha
from extract.maps.files import read_map

Size = tuple[int, int]  # (height, width) of an upright image

ORIGINS = {"index": 0.5, "edge": 0.0}  # where (0, 0) of a file lies in our coordinates, on both axes
_USUAL_SIDE = 1000.0  # pixels: in units of it the entries of a homography are of one order
_SINGULAR = 1e10  # condition number of such a matrix; those of photographs stay below 1e4
_COVERS = 1.0  # pixel


class Relation(Protocol):
    """What is known of a pair, for every point of its first image."""

    @property
    def digest(self) -> bytes:
        """Of all that could change an answer."""

    def truth(self, points: np.ndarray, first: Size, second: Size) -> tuple[np.ndarray, np.ndarray]:
        """(n, 2) where points (n, 2) of the first image lie in the second, and (n,) bool whether that is known."""


@dataclass(frozen=True, eq=False)
class Homography:
    """Every point of a plane, or of a turning camera: x' ~ matrix · x.  A mirrored pair has one, too.

    Its scale, and so its sign, is arbitrary: the middle of the first image is taken to lie before the horizon.
    """

    matrix: np.ndarray  # (3, 3) float64, between our coordinates

    def __post_init__(self) -> None:
        if np.shape(self.matrix) != (3, 3) or not np.isfinite(self.matrix).all():
            raise InputError(
                f"a homography is 3×3 finite numbers, not {np.shape(self.matrix)} {np.asarray(self.matrix).tolist()}"
            )
        side = np.diag([_USUAL_SIDE, _USUAL_SIDE, 1])
        if np.linalg.cond(np.linalg.inv(side) @ self.matrix @ side) > _SINGULAR:
            raise InputError(
                f"the homography {np.asarray(self.matrix).tolist()} is singular: it throws a plane onto a line"
            )

    @classmethod
    def of(cls, matrix: np.ndarray, origin: str = "index") -> Homography:
        """Of a matrix between coordinates whose (0, 0) is the centre of the first pixel ("index") or its "edge"."""
        shift = np.eye(3)
        shift[:2, 2] = origin_of(origin)
        given = np.asarray(matrix, np.float64)
        if given.shape != (3, 3) or not np.isfinite(given).all():
            return cls(given)  # which refuses it, and shows it as it came
        return cls(shift @ given @ np.linalg.inv(shift))

    @property
    def digest(self) -> bytes:
        """Of the numbers."""
        return hashlib.blake2b(b"homography" + np.ascontiguousarray(self.matrix, "<f8").tobytes()).digest()

    def truth(self, points: np.ndarray, first: Size, second: Size) -> tuple[np.ndarray, np.ndarray]:
        """Known before the horizon, also where a point leaves the second image; (0, 0) where not known."""
        height, width = first
        middle = float(self.matrix[2] @ (width / 2, height / 2, 1))
        homogeneous = np.column_stack([points, np.ones(len(points))]) @ self.matrix.T
        depths = homogeneous[:, 2] * np.sign(middle)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            positions = homogeneous[:, :2] / homogeneous[:, 2:]
        known = (depths > 0) & np.isfinite(positions).all(axis=1)
        return np.where(known[:, None], positions, 0.0), known


@dataclass(frozen=True, eq=False)
class Disparity:
    """A rectified stereo pair: what lies at (x, y) in the first, left image lies at (x − d, y) in the second.

    d = stored / scale + offset pixels, looked up in the pixel that a point lies in.  The map is of the first image's
    size and read whenever it is asked for.  Many maps have a disparity, too, for what the second camera cannot see,
    since something nearer hides it (Middlebury's aloe for 8 % of its pixels): nothing there could be found, so it is
    not known.
    """

    source: Path | np.ndarray  # (h, w)
    scale: float = 1.0  # stored units a pixel: 256 of KITTI's PNGs
    offset: float = 0.0  # pixels
    hole: float | tuple[float, ...] | None = None  # stored values that say nothing, beside 0, less and NaN
    key: str | None = None  # the array of an .npz, or the channel of an EXR file
    name: str = "the disparity map"  # what errors call it

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf or not np.isfinite(self.offset):
            raise InputError(
                f"{self.name} has the scale {self.scale} and the offset {self.offset}; the scale is how many stored "
                "units make a pixel, and positive, and the offset pixels"
            )

    @property
    def digest(self) -> bytes:
        """Of the file and of what its numbers mean."""
        holes = sorted(map(float, as_tuple(self.hole)))
        told = repr(("disparity", float(self.scale), float(self.offset), holes, self.key)).encode()
        return hashlib.blake2b(told + content_bytes(self.source)).digest()

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """(h, w) float64 disparities in pixels, 0 where not known, and (h, w) bool where they are."""
        raw = read_map(self.source, name=self.name, key=self.key)
        if raw.lossy or raw.palette is not None:
            what = "was compressed with loss" if raw.lossy else "holds colours of a palette"
            raise RefusedMapError(f"{self.name} {what}; save its numbers as grey PNG, TIFF or .npy")
        stored = without_alpha(raw.pixels, self.name)
        refuse_channels(stored, self.name, "a disparity map has one number a pixel")
        values = stored.astype(np.float64) / self.scale + self.offset
        known: np.ndarray = np.isfinite(values) & (values > 0)
        for hole in as_tuple(self.hole):
            known = known & (stored != hole)
        return np.where(known, values, 0.0), known

    def truth(self, points: np.ndarray, first: Size, second: Size) -> tuple[np.ndarray, np.ndarray]:
        """Known where there is a disparity that leads to a place in the second image where nothing hides it."""
        values, valid = self.pixels()
        if values.shape != tuple(first):
            raise InputError(
                f"{self.name} is {values.shape[1]}×{values.shape[0]} and the first image {first[1]}×{first[0]}; "
                "they have to be of one size"
            )
        inside = within(points, first)
        columns, rows = np.where(inside[:, None], np.floor(points), 0).astype(int).T
        positions = np.column_stack([points[:, 0] - values[rows, columns], points[:, 1]])
        known = inside & valid[rows, columns] & within(positions, second) & ~_hidden(values, rows, columns)
        return np.where(known[:, None], positions, 0.0), known


@dataclass(frozen=True, eq=False)
class Keypoints:
    """Points that somebody marked in both images."""

    first: np.ndarray  # (k, 2) float64
    second: np.ndarray  # (k, 2)
    visible: np.ndarray  # (k,) bool: marked in both
    extent: float  # the longer side of the object's box in the second image, that errors are measured by
    category: str | None = None

    def __post_init__(self) -> None:
        shapes = self.first.shape, self.second.shape, self.visible.shape
        count = len(self.visible)
        if shapes != ((count, 2), (count, 2), (count,)):
            raise InputError(f"keypoints have the shapes {shapes}; wanted (k, 2), (k, 2) and (k,)")
        if not np.isfinite(np.concatenate([self.first, self.second])[np.tile(self.visible, 2)]).all():
            raise InputError("a visible keypoint has a coordinate that is no finite number")
        if not 0 < self.extent < np.inf:
            raise InputError(
                f"keypoints have the extent {self.extent}; it is the longer side of a box, in pixels"
            )

    @property
    def digest(self) -> bytes:
        """Of the points and of the extent."""
        told = hashlib.blake2b(repr((float(self.extent), self.category)).encode())
        for each, dtype in ((self.first, "<f8"), (self.second, "<f8"), (self.visible, "u1")):
            told.update(np.ascontiguousarray(each.astype(dtype)).tobytes())
        return told.digest()


def origin_of(name: str) -> float:
    """What is to be added to coordinates that count from there."""
    if name not in ORIGINS:
        raise InputError(
            f"the origin of coordinates is {name!r}; it is 'index', where (0, 0) is the centre of the first pixel, as "
            "OpenCV has it, or 'edge', where it is the pixel's corner"
        )
    return ORIGINS[name]


def _hidden(values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(n,) bool: pixels (rows, columns) of a disparity map (h, w) that a nearer one covers in the second image.

    The nearer, the larger the disparity.  On one slanted surface neighbours may fall together, so it must be by more
    than a pixel.
    """
    used, line = np.unique(rows, return_inverse=True)
    lines = values[used]
    targets = np.floor(np.arange(lines.shape[1]) + 0.5 - lines).astype(int)
    there = np.nonzero((lines > 0) & (targets >= 0))
    nearest = np.zeros_like(lines)
    np.maximum.at(nearest, (there[0], targets[there]), lines[there])
    hidden: np.ndarray = nearest[line, targets[line, columns]] > lines[line, columns] + _COVERS
    return hidden


def within(points: np.ndarray, size: Size) -> np.ndarray:
    """(n,) bool: points (n, 2) on an image."""
    x, y = points.T
    inside: np.ndarray = (x >= 0) & (x < size[1]) & (y >= 0) & (y < size[0])
    return inside
