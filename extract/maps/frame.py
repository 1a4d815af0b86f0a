"""A map in the frame of a backbone, pixel for pixel where the image of its own lies.

Axes: (h, w) the upright image, (s, s) the frame, k channels.  The geometry is that of
`extract.transforms.Transform` with `crop_pct` 1; a map takes it in one step, so nothing is resampled twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from extract.errors import InputError
from extract.geometry import Axis, axes

SAMPLINGS = ("centre", "left")


class CropBox(NamedTuple):
    """The original pixels that a frame covers, and where each lies in it."""

    rows: slice
    columns: slice
    row_positions: np.ndarray  # (rows,) float64 in frame pixels, the centre of the first at 0
    column_positions: np.ndarray  # (columns,) the same


@dataclass(frozen=True)
class Frame:
    """A square of `size` pixels cut from the middle of an image whose shorter side it is.

    `sampling` says which pixel of the map a frame pixel takes: the one under its centre, or the one that
    PyTorch's `nearest` takes, under its upper left corner, which is up to half a pixel off from the image.
    """

    size: int = 224
    sampling: str = "centre"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"a frame of {self.size} pixels holds nothing; its size is at least 1")
        if self.sampling not in SAMPLINGS:
            raise InputError(f'sampling "{self.sampling}" is not one of {", ".join(SAMPLINGS)}')

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a number."""
        return {"size": self.size, "sampling": self.sampling}

    def place(self, target: np.ndarray) -> np.ndarray:
        """(h, w) or (h, w, k) to (s, s) or (s, s, k): every value is one of the map's own."""
        rows, columns = _nearest(*target.shape[:2], self)
        placed: np.ndarray = target[rows, columns]
        return placed

    def place_image(self, pixels: np.ndarray) -> np.ndarray:
        """(h, w, 3) uint8 to (s, s, 3): bicubic and antialiased, of whatever backbone; for targets made of images."""
        rows, columns = axes(pixels.shape[0], pixels.shape[1], self.size)
        shown = pixels[_whole(rows), _whole(columns)]
        (top, bottom), (left, right) = _edges(rows, self.size), _edges(columns, self.size)
        image = Image.fromarray(np.ascontiguousarray(shown))
        square = (self.size, self.size)
        return np.asarray(image.resize(square, Image.Resampling.BICUBIC, box=(left, top, right, bottom)))

    def place_area(
        self, target: np.ndarray, valid: np.ndarray | None = None, *, fill: float = -1.0
    ) -> np.ndarray:
        """(h, w) to (s, s) float32: the mean of what lies under each frame pixel, part pixels as parts.

        Pixels where `valid` (h, w) is False do not count; where none counts stands `fill`.
        """
        high, wide = _areas(*target.shape[:2], self.size)
        parts = (slice(*high.covers), slice(*wide.covers))

        def spread(values: np.ndarray) -> np.ndarray:
            return np.asarray(high.weights @ values[parts].astype(np.float32) @ wide.weights.T)

        if valid is None:
            return spread(target)
        known = spread(valid)
        sums = spread(np.where(valid, target, 0))
        some = known > 1e-4  # of a frame pixel's area; less is rounding
        return np.where(some, sums / np.where(some, known, 1), np.float32(fill))

    def crop_box(self, height: int, width: int) -> CropBox:
        """The pixels of an upright image whose centres the frame covers, and their places in the frame.

        A prediction of (s, s) is brought back by looking it up at these positions.  They are the image's,
        whatever the sampling.
        """
        (rows, high), (columns, wide) = (_covered(axis, self.size) for axis in axes(height, width, self.size))
        return CropBox(rows, columns, high, wide)


class _Areas(NamedTuple):
    weights: np.ndarray  # (s, pixels covered) float32, rows sum to 1
    covers: tuple[int, int]


@lru_cache(maxsize=64)  # datasets have few sizes, and their maps come one after the other
def _nearest(height: int, width: int, frame: Frame) -> tuple[np.ndarray, np.ndarray]:
    """(s, 1) rows and (1, s) columns."""
    rows, columns = (_sources(axis, frame) for axis in axes(height, width, frame.size))
    return rows[:, None], columns[None]


def _whole(axis: Axis) -> slice:
    return slice(axis.start, axis.start + axis.length)


def _edges(axis: Axis, size: int) -> tuple[float, float]:
    """Between which the frame lies, in source pixels."""
    first, last = (edge * axis.length / axis.resized for edge in (axis.offset, axis.offset + size))
    return first, min(last, axis.length)


def _sources(axis: Axis, frame: Frame) -> np.ndarray:
    """(s,) the source pixel that each frame pixel takes."""
    places = axis.offset + np.arange(frame.size)
    if frame.sampling == "centre":
        exact: np.ndarray = (2 * places + 1) * axis.length // (2 * axis.resized)  # integers: no rounding
        return exact + axis.start
    # In float32, as PyTorch does it: whole numbers may come out one lower.
    scale = np.float32(axis.length) / np.float32(axis.resized)
    found: np.ndarray = np.floor(places.astype(np.float32) * scale).astype(np.int64)
    taken: np.ndarray = np.minimum(found, axis.length - 1) + axis.start
    return taken


@lru_cache(maxsize=8)  # of large images these are megabytes
def _areas(height: int, width: int, size: int) -> tuple[_Areas, _Areas]:
    rows, columns = (_shares(axis, size) for axis in axes(height, width, size))
    return rows, columns


def _shares(axis: Axis, size: int) -> _Areas:
    """How much of each source pixel lies under each frame pixel."""
    edges = (axis.offset + np.arange(size + 1)) * (axis.length / axis.resized)
    first, last = int(edges[0]), min(int(np.ceil(edges[-1])), axis.length)
    pixels = np.arange(first, last)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.maximum(overlap, 0)
    weights /= weights.sum(axis=1, keepdims=True)
    return _Areas(weights.astype(np.float32), (axis.start + first, axis.start + last))


def _covered(axis: Axis, size: int) -> tuple[slice, np.ndarray]:
    """The source pixels with their centre in the frame, and where that is."""
    length, into = axis.length, axis.resized
    first, stop = (  # smallest y with (2 y + 1) / (2 length) at or past the edge
        -((into - 2 * edge * length) // (2 * into)) for edge in (axis.offset, axis.offset + size)
    )
    first, stop = max(first, 0), min(stop, length)
    positions = (np.arange(first, stop) + 0.5) * into / length - axis.offset - 0.5
    return slice(axis.start + first, axis.start + stop), positions
