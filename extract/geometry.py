"""Where an image lies in the square frame of a backbone; images and maps share this arithmetic.

The shorter side becomes the size asked for, then the central square is cut out.  Each of the two axes can be
looked at by itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

LONGEST = 16  # sides: of a longer strip only the middle is resized, so that memory stays bounded


class Axis(NamedTuple):
    """One axis: source pixels `start` … `start + length` become `resized` pixels; the frame begins at `offset`."""

    start: int
    length: int
    resized: int
    offset: int

    def into(self, places: float | np.ndarray) -> Any:
        """Where places of the image lie in the frame; both count from the edge of their first pixel."""
        return (places - self.start) * (self.resized / self.length) - self.offset

    def out_of(self, places: float | np.ndarray) -> Any:
        """Where places of the frame lie in the image."""
        return (places + self.offset) * (self.length / self.resized) + self.start


def resized(height: int, width: int, short: int) -> tuple[int, int]:
    """(height, width) of an image of that size once its shorter side is `short`."""
    scale = short / min(height, width)
    return max(short, round(height * scale)), max(short, round(width * scale))


def middle(height: int, width: int) -> tuple[slice, slice]:
    """Rows and columns that are resized: all, or the middle of what is longer than `LONGEST` short sides."""
    limit = LONGEST * min(height, width)
    top, left = (max(0, side - limit) // 2 for side in (height, width))
    return slice(top, min(top + limit, height)), slice(left, min(left + limit, width))


def axes(height: int, width: int, size: int) -> tuple[Axis, Axis]:
    """Of the rows and of the columns of an image; the crop's offsets round down."""
    parts = middle(height, width)
    lengths = [part.stop - part.start for part in parts]
    into = resized(lengths[0], lengths[1], size)
    rows, columns = (
        Axis(part.start, length, side, (side - size) // 2)
        for part, length, side in zip(parts, lengths, into, strict=True)
    )
    return rows, columns
